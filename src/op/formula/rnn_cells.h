/* What one unit of a cell computes in one step, between the products and the activations of the gates.
 *
 *     RNN     h' = act(x + y)
 *     LSTM    c' = f c + i g,  h' = o tanh(c');           i, f, o = sigmoid(x + y), g = tanh(x + y)
 *     GRU     h' = (1 - z) n + z h,  n = tanh(x + r y);   r, z = sigmoid(x + y)
 *
 * x: the product with the input, y: that with the state.  The includer defines MX_CELL_FUNCTION, the specifiers of a
 * function, MX_CELL(name), its name, and T, the element type (in C++ a template parameter).  The same formulas are
 * compositions of operators in op/def/rnn/rnn_compose.c and gluon/def/rnn_cells.c, and C text in
 * gluon/emit/kernels_sequence.c; they follow this file.
 *
 * SPDX-License-Identifier: Apache-2.0 */

MX_CELL_FUNCTION T MX_CELL(plain_relu)(T v) { return v < 0 ? 0 : v; }
/* From h', the gradient of v. */
MX_CELL_FUNCTION T MX_CELL(plain_relu_back)(T dh, T h) { return h > 0 ? dh : 0; }
/* The gradients of a gate's sum, from that of its value. */
MX_CELL_FUNCTION T MX_CELL(tanh_back)(T d, T value) { return d * (1 - value * value); }
MX_CELL_FUNCTION T MX_CELL(sigmoid_back)(T d, T value) { return d * value * (1 - value); }

/* c', clipped; `nan` replaces NaN. */
MX_CELL_FUNCTION T MX_CELL(lstm_cell)(T i, T f, T g, T c, T low, T high, T nan)
{
    T cell = f * c + i * g;
    cell = cell < low ? low : cell > high ? high : cell;
    return cell != cell ? nan : cell;
}

/* dc' with the gradient through h': dc += dh o (1 - tanh(c')^2), 0 where the cell was clipped; y is tanh(c'). */
MX_CELL_FUNCTION T MX_CELL(lstm_cell_back)(T dc, T dh, T o, T y, T kept, T low, T high)
{
    const T cell = dc + dh * o * (1 - y * y);
    return low > -(T)INFINITY && (kept <= low || kept >= high) ? 0 : cell;
}

/* n before tanh, and h'. */
MX_CELL_FUNCTION T MX_CELL(gru_new)(T x, T r, T y) { return x + r * y; }
MX_CELL_FUNCTION T MX_CELL(gru_state)(T n, T z, T h) { return (1 - z) * n + z * h; }

/* From dh', the gradients of the sums of n and z, and what reaches h without a product. */
MX_CELL_FUNCTION T MX_CELL(gru_new_back)(T dh, T z, T n) { return dh * (1 - z) * (1 - n * n); }
MX_CELL_FUNCTION T MX_CELL(gru_update_back)(T dh, T h, T z, T n) { return dh * (h - n) * z * (1 - z); }
MX_CELL_FUNCTION T MX_CELL(gru_state_back)(T dh, T z) { return dh * z; }
