/* Matrix products: what is common to both precisions, and their instances.
 *
 *     gemm_vector.h   vectors, masks                         each of these is a body that is
 *     gemm_micro.h    the register tiles, from gemm_tile.h   included once per element type
 *     gemm_turn.h     transposition
 *     gemm_pack.h     packing of panels
 *     gemm_dot.h      the tile for rows times rows
 *     gemm_row.h      one row times a matrix
 *     gemm_body.h     which way to go, blocking, threads
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "base/alloc.h"
#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/gemm/gemm.h"
#include "cpu/kernels/unroll.h"

/* Register tiles: ROWS x 2 vectors, and DOT_ROWS x DOT_COLUMNS vectors, fill the registers of the level. */
#if MX_VECTOR_REGISTERS == 32
#define ROWS 14
#define DOT_ROWS 4
#else
#define ROWS 6
#define DOT_ROWS 3
#endif
/* Packed B that is processed at a time: half of the second-level cache. */
#if defined(__AVX512F__)
#define CHUNK_BYTES (512 * 1024)
#elif defined(MX_NEON)
#define CHUNK_BYTES (256 * 1024)
#else
#define CHUNK_BYTES (400 * 1024)
#endif
#define PLACE_ROWS (ROWS > 8 ? INT64_MAX : 128) /* rows of B, each on a separate page, that are read in place: a
                                                 * narrow tile is done with a row before its page is looked up */
#define DOT_COLUMNS 4
#define ROW_LINES 8              /* rows of B that are read side by side for a single row of A */
#define DOT_BYTES (24 * 1024)    /* rows of a tile of dots that stay in the first-level cache */
#define DEPTH_BYTES 1600         /* of the common dimension at a time: a panel of A stays in the first-level cache */
#define PACKED_PANELS 80         /* of A that are packed at a time: enough to make packing B worthwhile */
#define GROUP 24                 /* panels of rows that go over a panel of B: they stay in the second-level cache */
#define SMALL_BYTES (16 * 1024)  /* packed B that fits on the stack */
#if defined(__AVX2__)
#define MASKED_LOADS 1           /* an edge of B can be read in place */
#else
#define MASKED_LOADS 0
#endif

#define WORK_PER_THREAD 524288.0 /* floating-point operations that pay for waking a thread */

    /* The columns of a tile: two vectors; one, masked; two, the second of them masked. */
    enum {
        WIDE,
        NARROW,
        WIDE_MASKED,
        SHAPES
    };

/* How a product is split for the threads: batch * rows * columns units, assigned in order. */
typedef struct gemm_grid {
    int64_t batch;         /* products */
    int64_t rows, columns; /* parts of each of them */
    int parts;             /* threads */
} gemm_grid;

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }
static int64_t round_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }
static int64_t min_int(int64_t a, int64_t b) { return a < b ? a : b; }

/* Begin of part i of n, in multiples of `unit`. */
static int64_t cut(int64_t size, int64_t unit, int64_t i, int64_t n)
{
    return min_int((size + unit - 1) / unit * i / n * unit, size);
}

/* Nearly square parts share most; uneven ones leave threads idle.  The constant weighs loading against computing. */
static double grid_cost(int64_t m, int64_t n, int64_t row_unit, int64_t column_unit, int64_t rows, int64_t columns)
{
    const double height = (double)((m + row_unit - 1) / row_unit + rows - 1) / (double)rows;
    const double width = (double)((n + column_unit - 1) / column_unit + columns - 1) / (double)columns;
    const double tall = (double)(int64_t)height * (double)row_unit, wide = (double)(int64_t)width * (double)column_unit;
    return tall * wide + 8 * (tall + wide);
}

static gemm_grid grid_make(int64_t batch, int64_t m, int64_t n, int64_t k, int64_t row_unit, int64_t column_unit)
{
    const double work = 2.0 * (double)m * (double)n * (double)k * (double)batch;
    gemm_grid grid = {.batch = batch, .rows = 1, .columns = 1, .parts = 1};
    if (work < 2 * WORK_PER_THREAD)
        return grid;
    const double wanted = work / WORK_PER_THREAD;
    grid.parts = mx_num_threads();
    if (wanted < grid.parts)
        grid.parts = (int)wanted;
    if (batch >= 4 * (int64_t)grid.parts)
        return grid;
    const int64_t pieces = grid.parts / gcd(grid.parts, batch);
    double best = 0;
    for (int64_t rows = 1; rows <= pieces; rows++) {
        if (pieces % rows)
            continue;
        const double cost = grid_cost(m, n, row_unit, column_unit, rows, pieces / rows);
        if (rows == 1 || cost < best)
            best = cost, grid.rows = rows, grid.columns = pieces / rows;
    }
    return grid;
}

#define T float
#define T_BYTES 4
#define FN(name) name##_f32
#define GEMM mx_gemm_f32
#define GEMM_RUN mx_gemm_f32_run
#define GEMM_PACK mx_gemm_f32_pack
#include "cpu/kernels/gemm/gemm_body.h"
#undef T
#undef T_BYTES
#undef FN
#undef GEMM
#undef GEMM_RUN
#undef GEMM_PACK

#define T double
#define T_BYTES 8
#define FN(name) name##_f64
#define GEMM mx_gemm_f64
#define GEMM_RUN mx_gemm_f64_run
#define GEMM_PACK mx_gemm_f64_pack
#include "cpu/kernels/gemm/gemm_body.h"
