/* Recurrent layers of a network that is written as C.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/emit/emit.h"
#include "gluon/op.gen.h"

/* Numbers that the kernel needs: two results of layers, h and c of one network, two sides of the gates. */
static int64_t scratch(const mx_emit_node *n)
{
    const mx_rnn_attrs *attrs = n->node->attrs;
    const int64_t steps = n->x->dim[0], batch = n->x->dim[1], hidden = attrs->state_size;
    return 2 * steps * batch * hidden * (attrs->bidirectional ? 2 : 1) + 2 * batch * hidden + 8 * hidden;
}

/* The place of output i, "NULL" if nobody needs it. */
static const char *output(const mx_emit_node *n, int i, char *buffer)
{
    const bool there = i < n->node->n_visible && n->emit->needed[n->out + i];
    return there ? mx_emit_at(n->emit, n->out + i, buffer) : "NULL";
}

static mx_code write_rnn(const mx_emit_node *n)
{
    const mx_rnn_attrs *attrs = n->node->attrs;
    char place[6][48];
    if (attrs->projection_size != MX_NONE_INT || attrs->use_sequence_length ||
        attrs->lstm_state_clip_min == attrs->lstm_state_clip_min)
        return mx_emit_fail(n, "projection_size, use_sequence_length and lstm_state_clip cannot be written as C");
    if (!n->emit->needed[n->out] && mx_emit_at(n->emit, n->out, place[0]) && !strcmp(place[0], "NULL"))
        return mx_emit_fail(n, "its output is not used, only its states");
    mx_emit_open(n, "rnn", 2);
    mx_text_print(mx_emit_body(n), "%s, %s, %s, %s, arena + %lld, %d, %lld, %d, %lld, %lld, %lld, %lld);\n",
                  mx_emit_or_null(n, 2, place[1]),
                  attrs->mode == MX_RNN_LSTM ? mx_emit_or_null(n, 3, place[2]) : "NULL", output(n, 1, place[3]),
                  output(n, 2, place[4]), (long long)n->scratch, attrs->mode, (long long)attrs->num_layers,
                  attrs->bidirectional ? 2 : 1, (long long)n->x->dim[0], (long long)n->x->dim[1],
                  (long long)n->x->dim[2], (long long)attrs->state_size);
    return MX_OK;
}

const mx_emit_row mx_emit_rnn_rows[] = {
    {.op = "RNN", .write = write_rnn, .all = true, .scratch = scratch},
    {0},
};
