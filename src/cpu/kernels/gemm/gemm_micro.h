/* The micro-kernels of the matrix product: a body, included once per type after gemm_vector.h.
 *
 * A tile is up to ROWS x COLUMNS elements of C, held in registers while the common dimension runs:
 *
 *            b: COLUMNS elements, VECTORS vectors
 *     a[0]   acc acc         every step loads one row of B as vectors and broadcasts ROWS elements of A;
 *     a[1]   acc acc         A(i, p) is a[i * a_row + p * a_col] for any strides, so A need not be packed,
 *      ...                   B(p, j) is b[p * b_row + j]
 *
 * There is one function per number of rows and shape of the columns; gemm_tile.h is their body.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#undef COLUMNS
#define COLUMNS (2 * VL)

typedef struct FN(tile) {
    int64_t k;
    const T *a;
    int64_t a_row, a_col;
    const T *b;
    int64_t b_row;
    int64_t b_ahead; /* elements from a row of B to what the next tile needs of it, which is prefetched */
    T *c;
    int64_t c_row;
    T alpha, beta;
    const T *bias;   /* NULL or (columns) */
    T floor;         /* smaller results become this: 0 is relu, minus infinity nothing */
    int64_t columns; /* 1 .. COLUMNS */
} FN(tile);

typedef void (*FN(tile_fn))(const FN(tile) *t);

#define TILE_ROWS 1
#include "cpu/kernels/gemm/gemm_tile.h"
#define TILE_ROWS 2
#include "cpu/kernels/gemm/gemm_tile.h"
#define TILE_ROWS 3
#include "cpu/kernels/gemm/gemm_tile.h"
#define TILE_ROWS 4
#include "cpu/kernels/gemm/gemm_tile.h"
#define TILE_ROWS 5
#include "cpu/kernels/gemm/gemm_tile.h"
#define TILE_ROWS 6
#include "cpu/kernels/gemm/gemm_tile.h"
#if ROWS > 6
#define TILE_ROWS 7
#include "cpu/kernels/gemm/gemm_tile.h"
#define TILE_ROWS 8
#include "cpu/kernels/gemm/gemm_tile.h"
#define TILE_ROWS 9
#include "cpu/kernels/gemm/gemm_tile.h"
#define TILE_ROWS 10
#include "cpu/kernels/gemm/gemm_tile.h"
#define TILE_ROWS 11
#include "cpu/kernels/gemm/gemm_tile.h"
#define TILE_ROWS 12
#include "cpu/kernels/gemm/gemm_tile.h"
#define TILE_ROWS 13
#include "cpu/kernels/gemm/gemm_tile.h"
#define TILE_ROWS 14
#include "cpu/kernels/gemm/gemm_tile.h"
#endif

#define ROW(rows) {FN(tile_##rows##_WIDE), FN(tile_##rows##_NARROW), FN(tile_##rows##_WIDE_MASKED)},
static const FN(tile_fn) FN(tiles)[ROWS][SHAPES] = {
    ROW(1) ROW(2) ROW(3) ROW(4) ROW(5) ROW(6)
#if ROWS > 6
    ROW(7) ROW(8) ROW(9) ROW(10) ROW(11) ROW(12) ROW(13) ROW(14)
#endif
};
#undef ROW
