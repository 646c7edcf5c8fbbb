/* The matrix product around its micro-kernels: a body, included once per type.
 *
 * There are four ways to compute a product; plan_make() estimates them and takes the cheapest:
 *
 *     straight   vectors along the columns of C; B is read in place or packed into panels
 *     swapped    the same for the transposed product, vectors along the rows of C; tiles are transposed when stored
 *     dot        vectors along the common dimension (gemm_dot.h)
 *     row        one row of C: B is read once, in memory order (gemm_row.h)
 *
 * Straight and swapped share one loop nest, outermost first: columns in chunks, so that packed B stays in the
 * second-level cache; the common dimension in blocks, so that a panel of A stays in the first; panels of ROWS
 * rows; tiles.  If A is packed, too, the blocks are outermost and A is packed once for all chunks.  Where B was stored as
 * panels before the call, panels of columns are outside of those of rows.  Every unit of the grid is computed by one
 * thread with its own buffer.
 *
 * Invariant: results are bitwise independent of the number of threads.  A tile of few rows adds in another order
 * (gemm_tile.h), so the rows are divided into panels once, and threads get complete panels; columns are split at
 * multiples of a tile.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#include "cpu/kernels/gemm/gemm_vector.h"
#include "cpu/kernels/gemm/gemm_micro.h"
#include "cpu/kernels/gemm/gemm_turn.h"
#include "cpu/kernels/gemm/gemm_pack.h"
#include "cpu/kernels/gemm/gemm_dot.h"
#include "cpu/kernels/gemm/gemm_row.h"

#undef DEPTH
#undef CHUNK
#define DEPTH (DEPTH_BYTES / T_BYTES)
#define CHUNK (CHUNK_BYTES / DEPTH_BYTES / COLUMNS * COLUMNS)

enum { FN(STRAIGHT), FN(SWAPPED), FN(DOT), FN(ROW) };

/* What all units share.  In the swapped form A and B, m and n are exchanged; C and bias are not. */
typedef struct FN(plan) {
    const GEMM *g;
    int way;
    int64_t m, n, k;
    int64_t panels; /* of rows, of even height: 20 rows are 10 + 10, not 14 + 6 */
    const T *a, *b; /* A(i, p) = a[i * a_row + p * a_col], B(p, j) = b[p * b_row + j * b_col] */
    int64_t a_row, a_col, b_row, b_col;
    int64_t stride_a, stride_b;
    bool pack_a, pack_b;
    gemm_grid grid;
    T *buffer; /* packed B and A, one piece of `buffer_size` elements per thread */
    int64_t buffer_size;
    int64_t b_size; /* ... the first of which are B's */
} FN(plan);

typedef struct FN(block) { /* a rectangle of C in the plan's orientation */
    int64_t row, rows, column, columns;
    int64_t panel, panels; /* straight and swapped: the panels of its rows */
} FN(block);

/* ---- storing ---------------------------------------------------------------------------------------------- */

/* C = max(alpha * turned + beta * C + bias, floor) for a tile of C that is stored transposed in `turned`, a row of COLUMNS
 * elements per column of C.  t holds the factors; its bias and columns are not those of C. */
static void FN(store_turned)(const FN(tile) *t, const T *turned, T *c, const T *bias, int64_t rows, int64_t columns)
{
    const V floor = (V){0} + t->floor;
    for (int64_t j = 0; j < columns; j += VL) {
        const FN(mask) mask = FN(mask_first)(min_int(columns - j, VL));
        const V shift = bias ? FN(load_mask)(bias + j, mask) : (V){0};
        for (int64_t i = 0; i < rows; i += VL) {
            V x[VL];
            FN(load_turned)(x, turned + j * COLUMNS + i, COLUMNS); /* elements past `columns` are never stored */
            T *out = c + i * t->c_row + j;
            for (int64_t q = 0; q < min_int(rows - i, VL); q++, out += t->c_row) {
                V y = x[q] * t->alpha + shift;
                if (t->beta != 0)
                    y += t->beta * FN(load_mask)(out, mask);
                FN(store_mask)(out, mask, FN(at_least)(y, floor));
            }
        }
    }
}

/* ---- straight and swapped --------------------------------------------------------------------------------- */

/* Prefetches the part of C that a tile adds to; for a short tile this would only cost time. */
static void FN(fetch_c)(const FN(tile) *t, int64_t rows)
{
    for (int64_t i = 0; t->k >= 64 && i < rows; i++) {
        __builtin_prefetch(t->c + i * t->c_row, 1);
        __builtin_prefetch(t->c + i * t->c_row + t->columns - 1, 1);
    }
}

/* One panel of rows against a chunk of columns.  t holds A and the factors; `bias` is NULL except in the last block. */
static void FN(panel)(const FN(plan) *p, FN(tile) *t, T *c, const T *bias, const FN(block) *at, const T *b,
                      int64_t b_panel)
{
    const bool swapped = p->way == FN(SWAPPED);
    T turned[PANEL_ROWS * COLUMNS] __attribute__((aligned(64)));
    if (swapped) /* what is transposed with the last rows must not hold denormals, which are slow */
        memset(turned + at->rows * COLUMNS, 0, (size_t)(PANEL_ROWS - at->rows) * COLUMNS * sizeof(T));
    t->b_ahead = b_panel;
    for (int64_t j = at->column; j < at->column + at->columns; j += COLUMNS, b += b_panel) {
        t->columns = min_int(at->column + at->columns - j, COLUMNS);
        t->b = b;
        const int shape = t->columns == COLUMNS ? WIDE : t->columns <= VL ? NARROW : WIDE_MASKED;
        const FN(tile_fn) run = FN(tiles)[at->rows - 1][shape];
        if (!swapped) {
            t->c = c + at->row * t->c_row + j, t->bias = bias ? bias + j : NULL;
            FN(fetch_c)(t, at->rows);
            run(t);
            continue;
        }
        FN(tile) plain = *t;
        plain.c = turned, plain.c_row = COLUMNS, plain.alpha = 1, plain.beta = 0, plain.floor = -INFINITY;
        run(&plain);
        FN(store_turned)(t, turned, c + j * t->c_row + at->row, bias ? bias + at->row : NULL, t->columns, at->rows);
    }
}

/* Part i of n of the panels of a block, with all its columns. */
static FN(block) FN(strip)(const FN(plan) *p, const FN(block) *at, int64_t i, int64_t n)
{
    FN(block) strip = *at;
    strip.panel = at->panel + at->panels * i / n;
    strip.panels = at->panel + at->panels * (i + 1) / n - strip.panel;
    strip.row = p->m * strip.panel / p->panels;
    strip.rows = p->m * (strip.panel + strip.panels) / p->panels - strip.row;
    return strip;
}

/* One chunk of columns and one block of the common dimension: what its tiles share. */
typedef struct FN(part) {
    const T *a, *b; /* from the block's first element on */
    T *c;
    const T *bias;   /* NULL except in the last block */
    int64_t b_panel; /* elements from one panel of B to the next */
    FN(tile) tile;   /* all but places and sizes */
} FN(part);

/* A few panels of rows against prepared panels of B: one of these stays in the first-level cache while all rows go over it,
 * and the next one is fetched meanwhile, bit by bit, since weights come from memory. */
static void FN(columns_first)(const FN(plan) *p, const FN(part) *part, const FN(block) *at)
{
    FN(tile) t = part->tile;
    int64_t row[GROUP + 1];
    for (int64_t i = 0; i <= at->panels; i++)
        row[i] = p->m * (at->panel + i) / p->panels;
    const bool few = at->panels < 3; /* then each step of a tile fetches, and the shares would be large */
    const int64_t share = few ? 0 : (t.k + at->panels - 1) / at->panels * COLUMNS;
    t.b = part->b;
    for (int64_t j = at->column; j < at->column + at->columns; j += COLUMNS, t.b += part->b_panel) {
        t.columns = min_int(at->column + at->columns - j, COLUMNS);
        t.bias = part->bias ? part->bias + j : NULL;
        const int shape = t.columns == COLUMNS ? WIDE : t.columns <= VL ? NARROW : WIDE_MASKED;
        const T *next = t.b + part->b_panel;
        for (int64_t i = 0; i < at->panels; i++, next += share) {
            t.a = part->a + row[i] * t.a_row, t.c = part->c + row[i] * t.c_row + j;
            t.b_ahead = i == at->panels - 1 || few ? part->b_panel : 0;
            for (int64_t k = 0; k < share; k += 64 / T_BYTES)
                __builtin_prefetch(next + k, 0, 2);
            FN(fetch_c)(&t, row[i + 1] - row[i]);
            FN(tiles)[row[i + 1] - row[i] - 1][shape](&t);
        }
    }
}

static void FN(groups)(const FN(plan) *p, const FN(part) *part, const FN(block) *at)
{
    const int64_t groups = (at->panels + GROUP - 1) / GROUP;
    for (int64_t i = 0; i < groups && !mx_stop_wanted(); i++) {
        const FN(block) group = FN(strip)(p, at, i, groups);
        FN(columns_first)(p, part, &group);
    }
}

/* Panel by panel of rows; for the first chunk A is packed. */
static void FN(rows_first)(const FN(plan) *p, const FN(part) *part, const FN(block) *at, T *packed, bool first_chunk)
{
    for (int64_t i = 0; i < at->panels && (i % 64 < 63 || !mx_stop_wanted());
         i++, packed += PANEL_ROWS * part->tile.k) {
        const FN(block) strip = FN(strip)(p, at, i, at->panels);
        FN(tile) t = part->tile;
        t.a = part->a + strip.row * p->a_row;
        if (p->pack_a && first_chunk)
            FN(pack_a)(packed, &t, strip.rows);
        if (p->pack_a) {
            t.a = packed;
            *(t.a_col == 1 ? &t.a_row : &t.a_col) = t.a_col == 1 ? t.k : PANEL_ROWS;
        }
        FN(panel)(p, &t, part->c, part->bias, &strip, part->b, part->b_panel);
    }
}

/* One chunk of columns and one block [first, first + depth) of the common dimension; `buffer` gets B and, for the
 * first chunk, A. */
static void FN(chunk)(const FN(plan) *p, const T *a, const T *b, T *c, const FN(block) *at, int64_t first,
                      int64_t depth, T *buffer, bool first_chunk)
{
    const GEMM *g = p->g;
    const bool last = first + depth == p->k;
    FN(part) part = {.a = a + first * p->a_col, .b_panel = COLUMNS, .c = c, .bias = last ? g->bias : NULL};
    part.tile = (FN(tile)){.k = depth, .a_row = p->a_row, .a_col = p->a_col, .b_row = p->b_row, .c_row = g->ldc,
                           .alpha = g->alpha, .beta = first ? 1 : g->beta, .floor = last && g->relu ? 0 : -INFINITY};
    if (g->panels_b) { /* a part of the columns begins with a panel */
        part.b = b + at->column * p->k + first * COLUMNS;
        part.b_panel = p->k * COLUMNS;
    } else {
        part.b = b + first * p->b_row + at->column * p->b_col;
    }
    if (p->pack_b) {
        FN(pack_b)(buffer, part.b, p->b_row, p->b_col, depth, at->columns);
        part.b = buffer, part.tile.b_row = COLUMNS, part.b_panel = depth * COLUMNS;
    }
    if (g->panels_b && !p->pack_a)
        FN(groups)(p, &part, at);
    else
        FN(rows_first)(p, &part, at, buffer + p->b_size, first_chunk);
}

/* The columns and the common dimension of some rows. */
static void FN(unit_rows)(const FN(plan) *p, const T *a, const T *b, T *c, const FN(block) *at, T *buffer)
{
    const int64_t depth = !p->pack_b && p->b_row * T_BYTES >= 2048 ? min_int(DEPTH, PLACE_ROWS) : DEPTH;
    const int64_t blocks = p->k > depth ? (p->k + depth - 1) / depth : 1;
    const int64_t chunks = (at->columns + CHUNK - 1) / CHUNK;
    for (int64_t s = 0; s < chunks * blocks && !mx_stop_wanted(); s++) {
        const int64_t i = p->pack_a ? s % chunks : s / blocks, q = p->pack_a ? s / chunks : s % blocks;
        const int64_t first = p->k * q / blocks, last = p->k * (q + 1) / blocks;
        FN(block) part = *at;
        part.column = at->column + cut(at->columns, COLUMNS, i, chunks);
        part.columns = at->column + cut(at->columns, COLUMNS, i + 1, chunks) - part.column;
        FN(chunk)(p, a, b, c, &part, first, last - first, buffer, i == 0);
    }
}

static void FN(unit_tiles)(const FN(plan) *p, const T *a, const T *b, T *c, const FN(block) *at, T *buffer)
{
    const int64_t most = p->pack_a ? PACKED_PANELS : at->panels, parts = (at->panels + most - 1) / most;
    for (int64_t i = 0; i < parts; i++) {
        const FN(block) rows = FN(strip)(p, at, i, parts);
        FN(unit_rows)(p, a, b, c, &rows, buffer);
    }
}

/* ---- dot -------------------------------------------------------------------------------------------------- */

/* C = act(alpha * sums + beta * C + bias) for one tile. */
static void FN(dot_store)(const GEMM *g, const T *sums, T *c, const FN(block) *at)
{
    for (int64_t i = 0; i < at->rows; i++)
        for (int64_t j = 0; j < at->columns; j++) {
            T *out = c + (at->row + i) * g->ldc + at->column + j;
            T x = g->alpha * sums[i * DOT_COLUMNS + j];
            if (g->beta != 0)
                x += g->beta * *out;
            if (g->bias)
                x += g->bias[at->column + j];
            *out = g->relu && x < 0 ? 0 : x;
        }
}

static void FN(unit_dots)(const FN(plan) *p, const T *a, const T *b, T *c, const FN(block) *at)
{
    FN(dot) d = {.k = p->k};
    T sums[DOTS];
    for (int64_t j = 0; j < at->columns && !mx_stop_wanted(); j += DOT_COLUMNS) {
        FN(block) tile = {.column = at->column + j, .columns = min_int(at->columns - j, DOT_COLUMNS)};
        for (int64_t q = 0; q < DOT_COLUMNS; q++)
            d.b[q] = b + (tile.column + min_int(q, tile.columns - 1)) * p->b_col;
        for (int64_t i = 0; i < at->rows; i += DOT_ROWS) {
            tile.row = at->row + i, tile.rows = min_int(at->rows - i, DOT_ROWS);
            for (int64_t q = 0; q < tile.rows; q++)
                d.a[q] = a + (tile.row + q) * p->a_row;
            FN(dots)[tile.rows - 1](&d, sums);
            FN(dot_store)(p->g, sums, c, &tile);
        }
    }
}

/* ---- row -------------------------------------------------------------------------------------------------- */

/* The sums of `columns` columns whose rows of B are contiguous along the common dimension. */
static void FN(row_dots_all)(const FN(plan) *p, const T *a, const T *b, int64_t columns, T *sums)
{
    for (int64_t j = 0; j < columns; j += ROW_LINES) {
        const T *row[ROW_LINES];
        for (int64_t q = 0; q < ROW_LINES; q++)
            row[q] = b + min_int(j + q, columns - 1) * p->b_col; /* those past the edge repeat the last one */
        FN(row_dots)(p->k, a, row, sums + j);
    }
}

static void FN(unit_row)(const FN(plan) *p, const T *a, const T *b, T *c, const FN(block) *at)
{
    T sums[ROW_CHUNK + ROW_LINES + VL] __attribute__((aligned(64)));
    for (int64_t j = at->column; j < at->column + at->columns; j += ROW_CHUNK) {
        const int64_t columns = min_int(at->column + at->columns - j, ROW_CHUNK);
        if (p->b_col == 1)
            FN(row_sums)(p->k, a, p->a_col, b + j, p->b_row, columns, sums);
        else
            FN(row_dots_all)(p, a, b + j * p->b_col, columns, sums);
        FN(row_finish)(p->g, sums, c + j, p->g->bias ? p->g->bias + j : NULL, columns);
    }
}

/* ---- planning --------------------------------------------------------------------------------------------- */

/* Estimates in vector instructions; measured: a transposed element costs 0.4, a sum over a vector 3. */
static double FN(tiles_cost)(int64_t m, int64_t n, int64_t k, bool transpose_b, bool turn)
{
    const double rows = (double)m, columns = (double)round_up(n, VL) / VL, depth = (double)k;
    const double blocks = (double)((k + DEPTH - 1) / DEPTH);
    return rows * columns * depth + (transpose_b ? 0.4 * (double)n * depth : 0) +
           (turn ? 0.5 * rows * (double)n * blocks : 0);
}

static double FN(dots_cost)(int64_t m, int64_t n, int64_t k)
{
    const bool far = k * (DOT_ROWS + DOT_COLUMNS) * T_BYTES > DOT_BYTES; /* rows come from the second-level cache */
    return (double)m * (double)round_up(n, DOT_COLUMNS) * ((far ? 1.4 : 1) * (double)(round_up(k, VL) / VL) + 3);
}

static void FN(plan_swap)(FN(plan) *p)
{
    FN(plan) s = *p;
    p->m = s.n, p->n = s.m;
    p->a = s.b, p->a_row = s.b_col, p->a_col = s.b_row, p->stride_a = s.stride_b;
    p->b = s.a, p->b_row = s.a_col, p->b_col = s.a_row, p->stride_b = s.stride_a;
}

/* A is read in place unless its panels would evict themselves from the first-level cache: lines a multiple of a page
 * apart share their cache sets, and narrow columns leave most of each cache line unused. */
static bool FN(must_pack_a)(const FN(plan) *p)
{
    if (p->n <= 4 * COLUMNS || p->m <= 8)
        return false;
    if (p->a_col == 1)
        return ROWS > 8 && p->a_row * T_BYTES % 4096 == 0;
    return p->k > DEPTH / 2 && (ROWS * T_BYTES <= 32 || p->a_col * T_BYTES % 4096 == 0);
}

/* B is read in place while few panels of rows go over it; a narrow tile is slower if its rows straddle cache lines.  The
 * address of B must not matter: the blocks of the common dimension, and so the order of the sums, follow from this. */
static bool FN(must_pack_b)(const FN(plan) *p)
{
    if (p->b_col != 1 || (!MASKED_LOADS && p->n % COLUMNS != 0))
        return true;
    const bool aligned = p->b_row * T_BYTES % 64 == 0;
    return p->m > (ROWS > 8 ? 256 : aligned ? 128 : 64);
}

static void FN(plan_choose)(FN(plan) *p)
{
    if (p->g->panels_b) {
        p->way = FN(STRAIGHT), p->b_row = COLUMNS, p->b_col = 1;
        p->pack_a = FN(must_pack_a)(p);
        return;
    }
    if (p->m == 1 && p->k > 0 && (p->b_col == 1 ? p->n >= 2 * COLUMNS : p->a_col == 1 && p->b_row == 1)) {
        p->way = FN(ROW);
        return;
    }
    const double straight = FN(tiles_cost)(p->m, p->n, p->k, p->b_col != 1, false);
    const double swapped = FN(tiles_cost)(p->n, p->m, p->k, p->a_row != 1, true);
    const bool along = p->a_col == 1 && p->b_row == 1;
    const double dot = FN(dots_cost)(p->m, p->n, p->k);
    const double tiles = straight < swapped ? straight : swapped;
    p->way = along && dot < tiles ? FN(DOT) : straight <= swapped ? FN(STRAIGHT) : FN(SWAPPED);
    if (p->way == FN(SWAPPED))
        FN(plan_swap)(p);
    if (p->way == FN(DOT))
        return;
    p->pack_b = FN(must_pack_b)(p);
    p->pack_a = FN(must_pack_a)(p);
}

static FN(plan) FN(plan_make)(const GEMM *g)
{
    FN(plan) p = {.g = g, .m = g->m, .n = g->n, .k = g->k, .a = g->a, .b = g->b,
                  .stride_a = g->stride_a, .stride_b = g->stride_b};
    p.a_row = g->trans_a ? 1 : g->lda, p.a_col = g->trans_a ? g->lda : 1;
    p.b_row = g->trans_b ? 1 : g->ldb, p.b_col = g->trans_b ? g->ldb : 1;
    if (g->n == 1 && g->ldb == 1) /* a vector has both layouts */
        p.b_row = p.b_col = 1;
    if (g->m == 1 && g->lda == 1)
        p.a_row = p.a_col = 1;
    FN(plan_choose)(&p);
    const bool dot = p.way == FN(DOT);
    p.panels = (p.m + ROWS - 1) / ROWS;
    p.grid = grid_make(g->batch, p.m, p.n, p.k, dot ? DOT_ROWS : ROWS, dot ? DOT_COLUMNS : COLUMNS);
    if (p.pack_b)
        p.b_size = min_int(p.k, DEPTH) * min_int(round_up(p.n, COLUMNS), CHUNK);
    p.buffer_size = p.b_size + (p.pack_a ? min_int(p.panels, PACKED_PANELS) * PANEL_ROWS * min_int(p.k, DEPTH) : 0);
    return p;
}

/* ---- running ---------------------------------------------------------------------------------------------- */

static void FN(run_unit)(const FN(plan) *p, int64_t unit, T *buffer)
{
    const gemm_grid *grid = &p->grid;
    const bool dot = p->way == FN(DOT);
    const int64_t column_unit = dot ? DOT_COLUMNS : COLUMNS;
    const int64_t item = unit / (grid->rows * grid->columns), cell = unit % (grid->rows * grid->columns);
    const int64_t i = cell / grid->columns, j = cell % grid->columns;
    const FN(block) all = {.panels = p->panels};
    FN(block) at = FN(strip)(p, &all, i, grid->rows);
    if (dot) {
        at.row = cut(p->m, DOT_ROWS, i, grid->rows);
        at.rows = cut(p->m, DOT_ROWS, i + 1, grid->rows) - at.row;
    }
    at.column = cut(p->n, column_unit, j, grid->columns);
    at.columns = cut(p->n, column_unit, j + 1, grid->columns) - at.column;
    if (at.rows == 0 || at.columns == 0)
        return;
    const T *a = p->a + item * p->stride_a, *b = p->b + item * p->stride_b;
    T *c = p->g->c + item * p->g->stride_c;
    if (p->way == FN(ROW))
        FN(unit_row)(p, a, b, c, &at);
    else if (dot)
        FN(unit_dots)(p, a, b, c, &at);
    else
        FN(unit_tiles)(p, a, b, c, &at, buffer);
}

static void FN(run_part)(void *arg, int part, int parts)
{
    const FN(plan) *p = arg;
    const int64_t units = p->grid.batch * p->grid.rows * p->grid.columns;
    for (int64_t unit = units * part / parts; unit < units * (part + 1) / parts; unit++)
        FN(run_unit)(p, unit, p->buffer + part * p->buffer_size);
}

mx_code GEMM_RUN(const GEMM *g)
{
    static const T none[1] = {0};
    if (g->m <= 0 || g->n <= 0 || g->batch <= 0)
        return MX_OK;
    FN(plan) p = FN(plan_make)(g);
    if (g->k <= 0) /* A and B may be NULL */
        p.k = 0, p.a = p.b = none, p.stride_a = p.stride_b = p.a_row = p.a_col = p.b_row = p.b_col = 0;
    T small[SMALL_BYTES / T_BYTES] __attribute__((aligned(64)));
    const size_t bytes = (size_t)(p.buffer_size * p.grid.parts) * sizeof(T);
    p.buffer = bytes <= sizeof small ? small : mx_alloc(bytes);
    if (!p.buffer)
        return MX_ERR_MEMORY;
    if (p.grid.parts == 1)
        FN(run_part)(&p, 0, 1);
    else
        mx_parallel_parts(p.grid.parts, FN(run_part), &p);
    if (p.buffer != small)
        mx_free(p.buffer, bytes);
    return MX_OK;
}

/* ---- panels that are kept ----------------------------------------------------------------------------------------- */

typedef struct FN(keeping) {
    const GEMM *g;
    T *panels;
} FN(keeping);

static void FN(keep_panels)(void *arg, int64_t begin, int64_t end)
{
    const FN(keeping) *job = arg;
    const GEMM *g = job->g;
    const int64_t b_row = g->trans_b ? 1 : g->ldb, b_col = g->trans_b ? g->ldb : 1, first = begin * COLUMNS;
    FN(pack_b)(job->panels + first * g->k, g->b + first * b_col, b_row, b_col, g->k,
               min_int(end * COLUMNS, g->n) - first);
}

void GEMM_PACK(const GEMM *g, T *panels)
{
    FN(keeping) job = {g, panels};
    mx_parallel((g->n + COLUMNS - 1) / COLUMNS, 1 + MX_GRAIN / (g->k * COLUMNS + 1), FN(keep_panels), &job);
}
