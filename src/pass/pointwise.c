/* Chains of pointwise steps as one loop over cache-sized tiles.
 *
 *     t = conv + shortcut; y = relu(t)      ->     y = _pointwise(conv, shortcut)  [add, relu]
 *
 * A step absorbs the step that computes one of its inputs if nothing else reads that value.  Only float32 values of one
 * size are fused, 16-bit floats too if the device can, within the forward part or within the backward part.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "gluon/op.gen.h"
#include "ndarray/dtype.h"
#include "op/formula/fused.h"
#include "pass/passes.h"

/* A step as a list of instructions (rows); n_rows 0: it is not pointwise. */
typedef struct joined {
    mx_fused program;
    int32_t in[MX_FUSED_INPUTS]; /* values */
    int length;                  /* steps fused into it */
} joined;

/* ---- one step as a row ------------------------------------------------------------------------------------------- */

static int activation_row(int type)
{
    switch (type) {
    case MX_ACTIVATION_RELU: return MX_ROW_relu;
    case MX_ACTIVATION_SIGMOID: return MX_ROW_sigmoid;
    case MX_ACTIVATION_TANH: return MX_ROW_tanh;
    default: return -1;
    }
}

static bool row_of(const mx_step *step, mx_fused_row *row)
{
    *row = (mx_fused_row){.in = {-1, -1, -1}};
    const mx_pointwise *use = mx_pointwise_of(step->op);
    if (use) {
        row->row = (int16_t)use->row, row->form = (int8_t)use->form;
        if (use->form >= MX_FORM_SCALAR)
            row->scalar = ((const mx_scalar_attrs *)step->attrs)->scalar;
        return true;
    }
    const bool forward = !strcmp(step->op->name, "Activation"),
               backward = !strcmp(step->op->name, "_backward_Activation");
    const int found = forward || backward ? activation_row(((const mx_activation_attrs *)step->attrs)->act_type) : -1;
    row->row = (int16_t)found, row->form = forward ? MX_FORM_UNARY : MX_FORM_BACKWARD;
    return found >= 0;
}

static bool joinable(const mx_program *program, int dtype)
{
    const bool narrow = mx_dtype_is_narrow(dtype);
    return dtype == MX_FLOAT32 || (narrow && mx_program_can(program, MX_CAN_CHAIN_NARROW));
}

static bool plain_values(const mx_program *program, const mx_step *step)
{
    const mx_value *out = &program->values.items[step->out[0]];
    if (step->n_out != 1 || out->external >= 0 || !joinable(program, out->dtype) || step->n_in > 3)
        return false;
    for (int k = 0; k < step->n_in; k++) {
        const mx_value *in = step->in[k] < 0 ? NULL : &program->values.items[step->in[k]];
        if (!in || in->dtype != out->dtype || !mx_shape_equal(&in->shape, &out->shape))
            return false;
    }
    return true;
}

static int operand(joined *j, int32_t value)
{
    for (int k = 0; k < j->program.n_in; k++)
        if (j->in[k] == value)
            return k;
    if (j->program.n_in == MX_FUSED_INPUTS)
        return -1;
    j->in[j->program.n_in] = value;
    return j->program.n_in++;
}

static void start(const mx_program *program, const mx_step *step, joined *j)
{
    mx_fused_row row;
    memset(j, 0, sizeof *j);
    if (step->dead || !step->n_in || !row_of(step, &row) || !plain_values(program, step) ||
        mx_step_has_effects(program, step) || mx_step_reads_written(program, step))
        return;
    for (int k = 0; k < step->n_in; k++)
        row.in[k] = (int8_t)operand(j, step->in[k]);
    j->program.rows[0] = row;
    j->program.n_rows = j->length = 1;
}

/* ---- fusing ------------------------------------------------------------------------------------------------------ */

/* Appends the rows of `from` to those of `to`; `value` (made by `to`'s rows) is the result of row `result`.
 * False: too many. */
static bool append(joined *to, const joined *from, int32_t value, int result)
{
    if (to->program.n_rows + from->program.n_rows > MX_FUSED_ROWS)
        return false;
    const int base = to->program.n_rows;
    for (int r = 0; r < from->program.n_rows; r++) {
        mx_fused_row row = from->program.rows[r];
        for (int k = 0; k < 3; k++) {
            if (row.in[k] < 0)
                continue;
            if (row.in[k] >= MX_FUSED_INPUTS)
                row.in[k] = (int8_t)(row.in[k] + base);
            else if (from->in[row.in[k]] == value && result >= 0)
                row.in[k] = (int8_t)(MX_FUSED_INPUTS + result);
            else if ((row.in[k] = (int8_t)operand(to, from->in[row.in[k]])) < 0)
                return false;
        }
        to->program.rows[to->program.n_rows++] = row;
    }
    to->length += from->length;
    return true;
}

/* Absorbs the steps that compute its inputs, one after the other. */
static void take_in(mx_program *program, joined *all, int64_t s)
{
    for (int k = 0; k < all[s].program.n_in;) {
        const int32_t value = all[s].in[k];
        const mx_value *v = &program->values.items[value];
        const int64_t m = v->maker;
        joined both;
        bool once = v->uses == 1;
        if (!once && m >= 0) { /* read several times, but by this step only */
            int reads = 0;
            for (int i = 0; i < program->steps.items[s].n_in; i++)
                reads += program->steps.items[s].in[i] == value;
            once = reads == v->uses;
        }
        if (m < 0 || !once || !all[m].program.n_rows || (m < program->forward) != (s < program->forward)) {
            k++;
            continue;
        }
        both = all[m];
        if (!append(&both, &all[s], value, all[m].program.n_rows - 1)) {
            k++;
            continue;
        }
        all[s] = both;
        all[m].program.n_rows = 0;
        program->steps.items[m].dead = true;
        k = 0;
    }
}

static mx_code replace(mx_program *program, int64_t s, const joined *j)
{
    mx_step *step = &program->steps.items[s];
    mx_fused *attrs = mx_program_alloc(program, sizeof *attrs);
    int32_t *lists = mx_program_alloc(program, (MX_FUSED_INPUTS + 1) * sizeof *lists);
    if (!attrs || !lists)
        return MX_ERR_MEMORY;
    *attrs = j->program;
    memcpy(lists, j->in, (size_t)j->program.n_in * sizeof *lists);
    lists[MX_FUSED_INPUTS] = step->out[0];
    step->op = MX_OP("_pointwise");
    step->attrs = attrs;
    step->in = lists, step->n_in = j->program.n_in;
    step->out = lists + MX_FUSED_INPUTS;
    return MX_OK;
}

mx_code mx_pass_pointwise(mx_program *program)
{
    const size_t bytes = (size_t)program->steps.length * sizeof(joined);
    joined *all = mx_alloc(bytes);
    if (!all)
        return MX_ERR_MEMORY;
    mx_code code = MX_OK;
    for (int64_t s = 0; s < program->steps.length; s++) {
        start(program, &program->steps.items[s], &all[s]);
        if (all[s].program.n_rows)
            take_in(program, all, s);
    }
    for (int64_t s = 0; !code && s < program->steps.length; s++)
        if (!program->steps.items[s].dead && all[s].length > 1)
            code = replace(program, s, &all[s]);
    mx_free(all, bytes);
    if (!code)
        mx_program_sweep(program);
    return code;
}
