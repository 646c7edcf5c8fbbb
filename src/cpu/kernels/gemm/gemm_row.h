/* One row times a matrix: a body, included once per type after gemm_vector.h.
 *
 * Every element of the matrix is used once, so the order of reading determines the speed: some rows side by side, each
 * from beginning to end, is fastest.
 *
 *     row_sums   C(j) = sum over p of a(p) B(p, j): the sums of a chunk of columns are in the first-level cache and
 *                take ROW_LINES rows of B at a time
 *     row_dots   C(j) = sum over p of a(p) B(j, p): ROW_LINES rows of B at a time, vectors along the common dimension
 *
 * SPDX-License-Identifier: Apache-2.0 */

#undef ROW_CHUNK
#define ROW_CHUNK (4096 / T_BYTES) /* columns whose sums are held at a time */

/* Adds some rows of B to the sums of `columns` columns; the first call overwrites them. */
static inline __attribute__((always_inline)) void FN(row_add)(const int lines, const T *a, int64_t a_col, const T *b,
                                                              int64_t b_row, int64_t columns, bool first, T *sums)
{
    V x[ROW_LINES];
    UNROLL for (int i = 0; i < lines; i++)
        x[i] = (V){0} + a[i * a_col];
    const T *b1 = b + b_row, *b4 = b + (lines > 4 ? 4 * b_row : 0);
    const T *row[ROW_LINES] = {b, b1, b + 2 * b_row, b1 + 2 * b_row, b4, b4 + b_row, b4 + 2 * b_row, b4 + 3 * b_row};
    int64_t j = 0;
    for (; j + VL <= columns; j += VL) {
        V sum = first ? (V){0} : FN(load)(sums + j), other = {0};
        UNROLL for (int i = 0; i < lines; i += 2) {
            sum += x[i] * FN(load)(row[i] + j);
            if (i + 1 < lines)
                other += x[i + 1] * FN(load)(row[i + 1] + j);
        }
        FN(store)(sums + j, sum + other);
    }
    if (j < columns) {
        const FN(mask) mask = FN(mask_first)(columns - j);
        V sum = first ? (V){0} : FN(load)(sums + j);
        UNROLL for (int i = 0; i < lines; i++)
            sum += x[i] * FN(load_mask)(row[i] + j, mask);
        FN(store)(sums + j, sum);
    }
}

static void FN(row_add_all)(const T *a, int64_t a_col, const T *b, int64_t b_row, int64_t columns, bool first, T *sums)
{
    FN(row_add)(ROW_LINES, a, a_col, b, b_row, columns, first, sums);
}
static void FN(row_add_one)(const T *a, int64_t a_col, const T *b, int64_t columns, bool first, T *sums)
{
    FN(row_add)(1, a, a_col, b, 0, columns, first, sums);
}

/* sums = a B for at most ROW_CHUNK columns. */
static void FN(row_sums)(int64_t k, const T *a, int64_t a_col, const T *b, int64_t b_row, int64_t columns, T *sums)
{
    int64_t p = 0;
    for (; p + ROW_LINES <= k; p += ROW_LINES)
        FN(row_add_all)(a + p * a_col, a_col, b + p * b_row, b_row, columns, p == 0, sums);
    for (; p < k; p++)
        FN(row_add_one)(a + p * a_col, a_col, b + p * b_row, columns, p == 0, sums);
}

/* sums[j] = the sum over vector x[j], of ROW_LINES vectors; x is overwritten. */
static inline __attribute__((always_inline)) void FN(store_sums)(T *sums, V x[ROW_LINES])
{
#if MX_VECTOR_BYTES / T_BYTES > ROW_LINES
    T lanes[VL];
    UNROLL for (int half = ROW_LINES / 2; half >= 1; half /= 2)
        UNROLL for (int i = 0; i < half; i++)
            x[i] = FN(zip_lower)(x[i], x[i + half]) + FN(zip_upper)(x[i], x[i + half]);
    FN(store)(lanes, x[0]);
    for (int i = 0; i < ROW_LINES; i++)
        sums[i] = lanes[i] + lanes[i + ROW_LINES];
#else
    UNROLL for (int i = 0; i < ROW_LINES; i += VL)
        FN(store)(sums + i, FN(sum_each)(x + i));
#endif
}

/* sums[j] = a . row j of B, for ROW_LINES rows; `b` holds where they begin.  Half of the rows are read at a time: rows
 * may be a page apart, and then share their sets of the first-level cache. */
static void FN(row_dots)(int64_t k, const T *a, const T *const *b, T *sums)
{
    V acc[ROW_LINES];
    UNROLL for (int half = 0; half < ROW_LINES; half += ROW_LINES / 2) {
        const T *row[ROW_LINES / 2];
        V even[ROW_LINES / 2], odd[ROW_LINES / 2];
        UNROLL for (int j = 0; j < ROW_LINES / 2; j++) {
            even[j] = odd[j] = (V){0};
            row[j] = b[half + j];
        }
        int64_t p = 0;
        for (; p + 2 * VL <= k; p += 2 * VL) {
            const V x = FN(load)(a + p), y = FN(load)(a + p + VL);
            UNROLL for (int j = 0; j < ROW_LINES / 2; j++) {
                even[j] += x * FN(load)(row[j] + p);
                odd[j] += y * FN(load)(row[j] + p + VL);
            }
        }
        for (; p < k; p += VL) {
            const FN(mask) mask = FN(mask_first)(min_int(k - p, VL));
            const V x = FN(load_mask)(a + p, mask);
            UNROLL for (int j = 0; j < ROW_LINES / 2; j++)
                even[j] += x * FN(load_mask)(row[j] + p, mask);
        }
        UNROLL for (int j = 0; j < ROW_LINES / 2; j++)
            acc[half + j] = even[j] + odd[j];
    }
    FN(store_sums)(sums, acc);
}

/* C = act(alpha * sums + beta * C + bias) for some columns. */
static void FN(row_finish)(const GEMM *g, const T *sums, T *c, const T *bias, int64_t columns)
{
    const V floor = (V){0} + (g->relu ? (T)0 : (T)-INFINITY);
    for (int64_t j = 0; j < columns; j += VL) {
        const FN(mask) mask = FN(mask_first)(min_int(columns - j, VL));
        V y = FN(load)(sums + j) * g->alpha;
        if (bias)
            y += FN(load_mask)(bias + j, mask);
        if (g->beta != 0)
            y += g->beta * FN(load_mask)(c + j, mask);
        FN(store_mask)(c + j, mask, FN(at_least)(y, floor));
    }
}
