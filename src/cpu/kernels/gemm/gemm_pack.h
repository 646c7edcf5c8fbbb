/* Packing for the matrix product: a body, included once per type after gemm_micro.h and gemm_turn.h.
 *
 * B is packed into panels of COLUMNS columns; a panel is (k, COLUMNS), contiguous, and the vectors of its last
 * columns are padded with zeros.  A panel of A is only copied to contiguous memory, in its own order: the
 * micro-kernel takes any strides.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#undef PANEL_ROWS
#define PANEL_ROWS ((ROWS + VL - 1) / VL * VL) /* ROWS in full vectors */
#undef ROWS_AHEAD
#define ROWS_AHEAD 2 /* between prefetching a row and copying it: rows may be a page apart */

/* The last, narrow panel from rows along the panel: B(p, j) = b[p * b_row + j]. */
static void FN(pack_rows)(T *out, const T *b, int64_t b_row, int64_t k, int64_t columns)
{
    const int64_t first = min_int(columns, VL);
    const FN(mask) mask0 = FN(mask_first)(first), mask1 = FN(mask_first)(columns - first);
    for (int64_t p = 0; p < k; p++, b += b_row, out += COLUMNS) {
        FN(store)(out, FN(load_mask)(b, mask0));
        if (columns > VL)
            FN(store)(out + VL, FN(load_mask)(b + VL, mask1));
    }
}

/* `columns` <= VL columns of a panel from rows across it: B(p, j) = b[j * b_col + p]. */
static void FN(pack_across)(T *out, const T *b, int64_t b_col, int64_t k, int64_t columns)
{
    for (int64_t p = 0; p < k; p += VL, b += VL, out += VL * COLUMNS) {
        const int64_t rest = min_int(k - p, VL);
        V x[VL];
        if (columns == VL && rest == VL) {
            FN(load_turned)(x, b, b_col);
            UNROLL for (int j = 0; j < VL; j++)
                FN(store)(out + j * COLUMNS, x[j]);
            continue;
        }
        const FN(mask) mask = FN(mask_first)(rest);
        T square[VL * VL];
        for (int j = 0; j < VL; j++)
            FN(store)(square + j * VL, j < columns ? FN(load_mask)(b + j * b_col, mask) : (V){0});
        FN(load_turned)(x, square, VL);
        for (int j = 0; j < rest; j++)
            FN(store)(out + j * COLUMNS, x[j]);
    }
}

/* `panels` full panels from rows along them: row by row, because these are long runs of memory. */
static void FN(pack_panels)(T *out, const T *b, int64_t b_row, int64_t k, int64_t panels)
{
    for (int64_t p = 0; p < k; p++, b += b_row, out += COLUMNS)
        for (int64_t j = 0; j < panels; j++) {
            const T *from = b + j * COLUMNS;
            T *to = out + j * k * COLUMNS;
            for (int line = 0; line < COLUMNS; line += 64 / T_BYTES)
                __builtin_prefetch(from + ROWS_AHEAD * b_row + line);
            FN(store)(to, FN(load)(from));
            FN(store)(to + VL, FN(load)(from + VL));
        }
}

/* (k, columns) of B, one stride of which is 1, into panels. */
static void FN(pack_b)(T *out, const T *b, int64_t b_row, int64_t b_col, int64_t k, int64_t columns)
{
    if (b_col == 1) {
        const int64_t whole = columns / COLUMNS * COLUMNS;
        FN(pack_panels)(out, b, b_row, k, whole / COLUMNS);
        if (whole < columns)
            FN(pack_rows)(out + k * whole, b + whole, b_row, k, columns - whole);
        return;
    }
    for (int64_t j = 0; j < columns; j += COLUMNS, out += k * COLUMNS) {
        const int64_t width = min_int(columns - j, COLUMNS);
        FN(pack_across)(out, b + j * b_col, b_col, k, min_int(width, VL));
        if (width > VL)
            FN(pack_across)(out + VL, b + (j + VL) * b_col, b_col, k, width - VL);
    }
}

/* (rows, k) of A, one stride of which is 1, copied to contiguous memory: (rows, k) or (k, PANEL_ROWS). */
static void FN(pack_a)(T *out, const FN(tile) *t, int64_t rows)
{
    const T *a = t->a;
    if (t->a_col == 1) {
        for (int64_t i = 0; i < rows; i++, a += t->a_row) {
            for (int64_t p = 0; p < t->k; p += 64 / T_BYTES)
                __builtin_prefetch(a + ROWS_AHEAD * t->a_row + p);
            memcpy(out + i * t->k, a, (size_t)t->k * sizeof(T));
        }
        return;
    }
    const FN(mask) mask = FN(mask_first)((rows - 1) % VL + 1);
    for (int64_t p = 0; p < t->k; p++, a += t->a_col, out += PANEL_ROWS) {
        int64_t i = 0;
        __builtin_prefetch(a + 4 * ROWS_AHEAD * t->a_col);
        for (; i + VL < rows; i += VL)
            FN(store)(out + i, FN(load)(a + i));
        FN(store)(out + i, FN(load_mask)(a + i, mask));
    }
}
