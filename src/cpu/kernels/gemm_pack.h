/* Packing for the matrix product: a body, included once per type after gemm_micro.h and gemm_turn.h.
 *
 * B is packed into panels of COLUMNS columns; a panel is (k, COLUMNS), contiguous, and the vectors of its last
 * columns are filled up with zeros.  A panel of A is only copied together, in the order it already has: the
 * micro-kernel takes any strides.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#undef PANEL_ROWS
#define PANEL_ROWS ((ROWS + VL - 1) / VL * VL) /* ROWS in whole vectors */

/* One panel from rows that lie along the panel: B(p, j) = b[p * b_row + j]. */
static void FN(pack_rows)(T *out, const T *b, int64_t b_row, int64_t k, int64_t columns)
{
    if (columns == COLUMNS) {
        for (int64_t p = 0; p < k; p++, b += b_row, out += COLUMNS) {
            FN(store)(out, FN(load)(b));
            FN(store)(out + VL, FN(load)(b + VL));
        }
        return;
    }
    const int64_t first = min_int(columns, VL);
    const FN(mask) mask0 = FN(mask_first)(first), mask1 = FN(mask_first)(columns - first);
    for (int64_t p = 0; p < k; p++, b += b_row, out += COLUMNS) {
        FN(store)(out, FN(load_mask)(b, mask0));
        if (columns > VL)
            FN(store)(out + VL, FN(load_mask)(b + VL, mask1));
    }
}

/* `columns` <= VL columns of a panel from rows that lie across it: B(p, j) = b[j * b_col + p]. */
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

/* (k, columns) of B, with strides of which one is 1, into panels. */
static void FN(pack_b)(T *out, const T *b, int64_t b_row, int64_t b_col, int64_t k, int64_t columns)
{
    for (int64_t j = 0; j < columns; j += COLUMNS, out += k * COLUMNS) {
        const int64_t width = min_int(columns - j, COLUMNS);
        if (b_col == 1) {
            FN(pack_rows)(out, b + j, b_row, k, width);
            continue;
        }
        FN(pack_across)(out, b + j * b_col, b_col, k, min_int(width, VL));
        if (width > VL)
            FN(pack_across)(out + VL, b + (j + VL) * b_col, b_col, k, width - VL);
    }
}

/* (rows, k) of A, with strides of which one is 1, copied together; gives the strides of the copy. */
static void FN(pack_a)(T *out, FN(tile) *t, int64_t rows)
{
    const T *a = t->a;
    if (t->a_col == 1) {
        for (int64_t i = 0; i < rows; i++)
            memcpy(out + i * t->k, a + i * t->a_row, (size_t)t->k * sizeof(T));
        t->a_row = t->k;
    } else {
        const FN(mask) mask = FN(mask_first)((rows - 1) % VL + 1);
        for (int64_t p = 0; p < t->k; p++, a += t->a_col) {
            int64_t i = 0;
            for (; i + VL < rows; i += VL)
                FN(store)(out + p * PANEL_ROWS + i, FN(load)(a + i));
            FN(store)(out + p * PANEL_ROWS + i, FN(load_mask)(a + i, mask));
        }
        t->a_col = PANEL_ROWS;
    }
    t->a = out;
}
