/* The register tile: a body, included once per type and number of rows (TILE_ROWS) by gemm_micro.h.
 *
 * It includes itself once for each shape of the columns.  Rows and shape are constants of the text, not arguments of
 * an inlined function: some compilers simplify such a function before these are constants, and then hold the sums in
 * memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TILE_SHAPE

#define TILE_SHAPE WIDE
#include "cpu/kernels/gemm/gemm_tile.h"
#undef TILE_SHAPE
#define TILE_SHAPE NARROW
#include "cpu/kernels/gemm/gemm_tile.h"
#undef TILE_SHAPE
#define TILE_SHAPE WIDE_MASKED
#include "cpu/kernels/gemm/gemm_tile.h"
#undef TILE_SHAPE
#undef TILE_ROWS

#else

#define TILE_NAME_(rows, shape) FN(tile_##rows##_##shape)
#define TILE_NAME(rows, shape) TILE_NAME_(rows, shape)
#define EACH_ROW UNROLL for (int i = 0; i < rows; i++)

static void TILE_NAME(TILE_ROWS, TILE_SHAPE)(const FN(tile) *t)
{
    enum { rows = TILE_ROWS, two = TILE_SHAPE != NARROW, masked = TILE_SHAPE != WIDE };
    /* Few rows leave few independent sums: then `lanes` steps run side by side to hide the latency of FMA. */
    const int lanes = rows * (two ? 2 : 1) >= 6 ? 1 : rows * (two ? 2 : 1) >= 3 ? 2 : 4;
    const FN(mask) mask = FN(mask_first)(masked ? t->columns - (two ? VL : 0) : VL);
    int64_t a_row = t->a_row, a_col = t->a_col, b_row = t->b_row;
    __asm__("" : "+r"(a_row), "+r"(a_col), "+r"(b_row)); /* prevents copies of the loop for stride 1 */
    const int64_t b_ahead = t->b_ahead * T_BYTES;
    const T *a[(ROWS + 2) / 3], *b = t->b; /* one pointer serves three rows through the addressing modes */
    V acc[4][ROWS][2];
    UNROLL for (int g = 0; g < (rows + 2) / 3; g++)
        a[g] = t->a + 3 * g * a_row;
    UNROLL for (int lane = 0; lane < lanes; lane++)
        UNROLL for (int i = 0; i < rows; i++)
            acc[lane][i][0] = acc[lane][i][1] = (V){0};

#define STEP(lane) do { \
        V b0 = masked && !two && MASKED_LOADS ? FN(load_mask)(b, mask) : FN(load)(b), b1 = b0; \
        if (two) \
            b1 = masked && MASKED_LOADS ? FN(load_mask)(b + VL, mask) : FN(load)(b + VL); \
        for (int line = 0; rows > 3 && line < COLUMNS * T_BYTES; line += 64) /* with fewer rows loads are the limit anyway */ \
            __builtin_prefetch((const char *)b + b_ahead + line); \
        EACH_ROW { \
            T x = a[i / 3][i % 3 * a_row]; \
            acc[lane][i][0] += x * b0; \
            if (two) \
                acc[lane][i][1] += x * b1; \
        } \
        UNROLL for (int g = 0; g < (rows + 2) / 3; g++) \
            a[g] += a_col; \
        b += b_row; \
    } while (0)

    int64_t p = t->k;
    for (; p >= lanes; p -= lanes)
        UNROLL for (int lane = 0; lane < lanes; lane++)
            STEP(lane);
    if (lanes > 1) {
        for (; p > 0; p--)
            STEP(0);
        UNROLL for (int lane = 1; lane < lanes; lane++)
            UNROLL for (int i = 0; i < rows; i++) {
                acc[0][i][0] += acc[lane][i][0];
                acc[0][i][1] += acc[lane][i][1];
            }
    }
#undef STEP

    T *c = t->c;
    const T alpha = t->alpha, beta = t->beta;
    V bias0 = {0}, bias1 = {0};
    const V floor = bias0 + t->floor;
    if (t->bias) {
        bias0 = two ? FN(load)(t->bias) : FN(load_mask)(t->bias, mask);
        if (two)
            bias1 = FN(load_mask)(t->bias + VL, mask);
    }
#define FINISH(old0, old1) EACH_ROW { \
        const V x = FN(at_least)(acc[0][i][0] * alpha + bias0 old0, floor); \
        if (two) { \
            const V y = FN(at_least)(acc[0][i][1] * alpha + bias1 old1, floor); \
            FN(store)(c, x); \
            if (masked) \
                FN(store_mask)(c + VL, mask, y); \
            else \
                FN(store)(c + VL, y); \
        } else { \
            FN(store_mask)(c, mask, x); \
        } \
        c += t->c_row; \
    }
    if (beta == 0)
        FINISH(, )
    else
        FINISH(+beta * (two ? FN(load)(c) : FN(load_mask)(c, mask)),
               +beta * (masked ? FN(load_mask)(c + VL, mask) : FN(load)(c + VL)))
#undef FINISH
}

#undef TILE_NAME
#undef TILE_NAME_
#undef EACH_ROW
#endif
