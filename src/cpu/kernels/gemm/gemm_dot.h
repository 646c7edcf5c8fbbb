/* Products of rows with rows, C(i, j) = sum over p of A(i, p) B(j, p): a body, included once per type.
 *
 * If both operands are contiguous along the common dimension and one of them is too thin to pay for a transposition, the
 * vectors run along the common dimension and are summed up at the end.  Nothing is packed.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#undef DOTS
#define DOTS ((DOT_ROWS * DOT_COLUMNS + VL - 1) / VL * VL) /* the sums of a tile, in full vectors */

typedef struct FN(dot) {
    int64_t k;
    const T *a[DOT_ROWS], *b[DOT_COLUMNS]; /* the rows; those past an edge repeat the last one */
} FN(dot);

/* sums[i * DOT_COLUMNS + j] = a[i] . b[j] */
static inline __attribute__((always_inline)) void FN(dot_body)(const FN(dot) *d, T *sums, const int rows)
{
    V acc[DOTS];
    const T *a[DOT_ROWS], *b[DOT_COLUMNS];
    UNROLL for (int i = 0; i < DOTS; i++)
        acc[i] = (V){0};
    UNROLL for (int i = 0; i < rows; i++)
        a[i] = d->a[i];
    UNROLL for (int j = 0; j < DOT_COLUMNS; j++)
        b[j] = d->b[j];

#define STEP(LOAD) do { \
        V x[DOT_ROWS]; \
        UNROLL for (int i = 0; i < rows; i++) \
            x[i] = LOAD(a[i]); \
        UNROLL for (int j = 0; j < DOT_COLUMNS; j++) { \
            V y = LOAD(b[j]); \
            UNROLL for (int i = 0; i < rows; i++) \
                acc[i * DOT_COLUMNS + j] += x[i] * y; \
        } \
    } while (0)
#define LOAD_FULL(row) FN(load)(row + p)
#define LOAD_REST(row) FN(load_mask)(row + p, mask)
    int64_t p = 0;
    for (; p + VL <= d->k; p += VL)
        STEP(LOAD_FULL);
    if (p < d->k) {
        const FN(mask) mask = FN(mask_first)(d->k - p);
        STEP(LOAD_REST);
    }
#undef LOAD_FULL
#undef LOAD_REST
#undef STEP
    UNROLL for (int i = 0; i < rows * DOT_COLUMNS; i += VL)
        FN(store)(sums + i, FN(sum_each)(acc + i));
}

static void FN(dot_1)(const FN(dot) *d, T *sums) { FN(dot_body)(d, sums, 1); }
static void FN(dot_2)(const FN(dot) *d, T *sums) { FN(dot_body)(d, sums, 2); }
static void FN(dot_3)(const FN(dot) *d, T *sums) { FN(dot_body)(d, sums, 3); }
#if DOT_ROWS > 3
static void FN(dot_4)(const FN(dot) *d, T *sums) { FN(dot_body)(d, sums, 4); }
#endif

static void (*const FN(dots)[DOT_ROWS])(const FN(dot) *d, T *sums) = {
    FN(dot_1), FN(dot_2), FN(dot_3),
#if DOT_ROWS > 3
    FN(dot_4),
#endif
};
