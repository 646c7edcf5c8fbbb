/* Recurrent layers, and the loss of sequences, in a network that is written as C.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/emit/emit.h"
#include "gluon/op.gen.h"

static bool is_projected(const mx_rnn_attrs *attrs) { return attrs->projection_size != MX_NONE_INT; }
static int64_t handed(const mx_rnn_attrs *attrs)
{
    return is_projected(attrs) ? attrs->projection_size : attrs->state_size;
}

/* Numbers that the kernel needs: two results of layers, h and c of one network, two sides of the gates, h as it was. */
static int64_t scratch(const mx_emit_node *n)
{
    const mx_rnn_attrs *attrs = n->node->attrs;
    const int64_t steps = n->x->dim[0], batch = n->x->dim[1], hidden = attrs->state_size, m = handed(attrs);
    return 2 * steps * batch * m * (attrs->bidirectional ? 2 : 1) + batch * (m + hidden) + 9 * hidden;
}

/* The place of output i, "NULL" if nobody needs it. */
static const char *output(const mx_emit_node *n, int i, char *buffer)
{
    const bool there = i < n->node->n_visible && n->emit->needed[n->out + i];
    return there ? mx_emit_at(n->emit, n->out + i, buffer) : "NULL";
}

/* "length, clip": lengths of the sequences and {least, largest, NaN stays} of a cell, or NULL. */
static void write_limits(const mx_emit_node *n, const mx_rnn_attrs *attrs)
{
    char place[48];
    const int length = attrs->mode == MX_RNN_LSTM || n->node->n_in > 4 ? 4 : 3;
    mx_text_print(mx_emit_body(n), "%s, ", attrs->use_sequence_length ? mx_emit_or_null(n, length, place) : "NULL");
    if (attrs->lstm_state_clip_min != attrs->lstm_state_clip_min) {
        mx_text_add(mx_emit_body(n), "NULL");
        return;
    }
    mx_text_add(mx_emit_body(n), "(const float[]){");
    mx_emit_float(mx_emit_body(n), attrs->lstm_state_clip_min);
    mx_emit_add(n, attrs->lstm_state_clip_max);
    mx_text_print(mx_emit_body(n), ", %d}", attrs->lstm_state_clip_nan);
}

static mx_code write_rnn(const mx_emit_node *n)
{
    const mx_rnn_attrs *attrs = n->node->attrs;
    char place[6][48];
    if (!n->emit->needed[n->out] && mx_emit_at(n->emit, n->out, place[0]) && !strcmp(place[0], "NULL"))
        return mx_emit_fail(n, "its output is not used, only its states");
    mx_emit_open(n, "rnn", 2);
    mx_text_print(mx_emit_body(n), "%s, %s, %s, %s, arena + %lld, ", mx_emit_or_null(n, 2, place[1]),
                  attrs->mode == MX_RNN_LSTM ? mx_emit_or_null(n, 3, place[2]) : "NULL", output(n, 1, place[3]),
                  output(n, 2, place[4]), (long long)n->scratch);
    write_limits(n, attrs);
    mx_text_print(mx_emit_body(n), ", %d, %d, %lld, %d, %lld, %lld, %lld, %lld, %lld);\n", attrs->mode,
                  is_projected(attrs), (long long)attrs->num_layers, attrs->bidirectional ? 2 : 1,
                  (long long)n->x->dim[0], (long long)n->x->dim[1], (long long)n->x->dim[2],
                  (long long)attrs->state_size, (long long)handed(attrs));
    return MX_OK;
}

/* ---- connectionist temporal classification ----------------------------------------------------------------------- */

static int64_t ctc_scratch(const mx_emit_node *n) { return 2 * (2 * mx_emit_shape(n, 1)->dim[1] + 1); }

static mx_code write_ctc(const mx_emit_node *n)
{
    const mx_ctc_attrs *attrs = n->node->attrs;
    char place[2][48];
    mx_emit_open(n, "ctc", 2);
    mx_text_print(mx_emit_body(n), "%s, %s, arena + %lld, %lld, %lld, %lld, %lld, %d);\n",
                  attrs->use_data_lengths ? mx_emit_or_null(n, 2, place[0]) : "NULL",
                  attrs->use_label_lengths ? mx_emit_or_null(n, 3, place[1]) : "NULL", (long long)n->scratch,
                  (long long)n->x->dim[0], (long long)n->x->dim[1], (long long)n->x->dim[2],
                  (long long)mx_emit_shape(n, 1)->dim[1], attrs->blank_label == MX_CTC_LAST);
    return MX_OK;
}

const mx_emit_row mx_emit_rnn_rows[] = {
    {.op = "RNN", .write = write_rnn, .all = true, .scratch = scratch},
    {.op = "CTCLoss", .write = write_ctc, .scratch = ctc_scratch},
    {0},
};
