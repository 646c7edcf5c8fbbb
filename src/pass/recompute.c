/* Results of normalisations that the backward part reads are recomputed there instead of saved (MX_CAN_RECOMPUTE).
 *
 *     forward   x = conv(...); y = _norm_apply(x, mean, inverse); z = conv(y, w)
 *     backward  y' = _norm_apply(x, mean, inverse); gw = weight gradient(y', gz)          x is saved anyway
 *
 * One more pass over memory instead of nearly half of what training a convolutional network saves.  A result with an
 * addend is recomputed if the addend is saved, so every second one in a chain of residual blocks; if that is not enough,
 * the others are, too, from values recomputed just before.  Networks whose values need little memory are not changed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "gluon/op.gen.h"
#include "ndarray/device.h"
#include "pass/passes.h"

#define LEAST_BYTES ((int64_t)8 << 30)    /* saved for the backward part: less is not worth the time */
#define ENOUGH_BYTES ((int64_t)13 << 29) /* below this no chains are recomputed */

/* How the backward part uses a value. */
typedef struct use {
    int32_t first;      /* step of the backward part that first reads it; -1: none */
    int32_t last;       /* the last such step */
    int32_t copy_value; /* the value computed by the repeated step; -1: not yet */
    bool recomputed;    /* it is recomputed before the first such step */
} use;

static void find_uses(const mx_program *program, use *uses)
{
    for (int64_t v = 0; v < program->values.length; v++)
        uses[v] = (use){-1, -1, -1, false};
    for (int64_t i = program->forward; i < program->steps.length; i++)
        for (int k = 0; k < program->steps.items[i].n_in; k++) {
            const int32_t v = program->steps.items[i].in[k];
            if (v < 0)
                continue;
            uses[v].first = uses[v].first < 0 ? (int32_t)i : uses[v].first;
            uses[v].last = (int32_t)i;
        }
}

static int64_t saved_bytes(const mx_program *program, const use *uses)
{
    int64_t bytes = 0;
    for (int64_t v = 0; v < program->values.length; v++)
        if (uses[v].first >= 0 && program->values.items[v].maker >= 0 &&
            program->values.items[v].maker < program->forward)
            bytes += mx_value_bytes(&program->values.items[v]);
    return bytes;
}

static bool is_result(const mx_program *program, int32_t v)
{
    for (int64_t h = 0; h < program->results.length; h++)
        if (program->results.items[h] == v)
            return true;
    return false;
}

/* The value is in memory in the backward part until `step`, whether anything is recomputed or not. */
static bool is_saved(const mx_program *program, const use *uses, int32_t v, int32_t step)
{
    return v < 0 || program->values.items[v].external >= 0 || (!uses[v].recomputed && uses[v].last >= step);
}

/* chain: also if inputs are themselves recomputed */
static bool suits(const mx_program *program, const use *uses, const mx_step *step, bool chain)
{
    const int32_t y = step->n_out == 1 ? step->out[0] : -1;
    if (y < 0 || strcmp(step->op->name, "_norm_apply") || uses[y].first < 0 || uses[y].recomputed ||
        is_result(program, y))
        return false;
    for (int k = 0; k < step->n_in; k++) {
        const int32_t v = step->in[k];
        if (!is_saved(program, uses, v, uses[y].first) && !(chain && uses[v].recomputed))
            return false;
    }
    return true;
}

/* Marks values to recompute; inputs of recomputed steps must be recomputed before them. */
static int64_t choose(const mx_program *program, use *uses)
{
    int64_t saved = saved_bytes(program, uses), count = 0;
    if (saved < LEAST_BYTES)
        return 0;
    for (int chain = 0; chain < 2; chain++)
        for (int32_t i = 0; i < program->forward && (!chain || saved > ENOUGH_BYTES); i++)
            if (suits(program, uses, &program->steps.items[i], chain)) {
                const int32_t y = program->steps.items[i].out[0];
                uses[y].recomputed = true;
                saved -= mx_value_bytes(&program->values.items[y]);
                count++;
            }
    for (int64_t i = program->forward - 1; i >= 0; i--) {
        const mx_step *step = &program->steps.items[i];
        for (int k = 0; step->n_out == 1 && uses[step->out[0]].recomputed && k < step->n_in; k++)
            if (step->in[k] >= 0 && uses[step->in[k]].recomputed && uses[step->in[k]].first > uses[step->out[0]].first)
                uses[step->in[k]].first = uses[step->out[0]].first;
    }
    return count;
}

/* Repeats a step: reads recomputed inputs, writes a new value. */
static mx_code repeat(mx_program *program, use *uses, const mx_step *made, mx_step *copy)
{
    const mx_value value = program->values.items[made->out[0]];
    const int32_t copy_value = mx_program_value(program, &value.shape, value.dtype);
    int32_t *lists = mx_program_alloc(program, (size_t)(made->n_in + 1) * sizeof *lists);
    if (copy_value < 0 || !lists)
        return MX_ERR_MEMORY;
    *copy = *made;
    copy->in = lists, copy->out = lists + made->n_in;
    for (int k = 0; k < made->n_in; k++)
        lists[k] = made->in[k] >= 0 && uses[made->in[k]].recomputed ? uses[made->in[k]].copy_value : made->in[k];
    *copy->out = uses[made->out[0]].copy_value = copy_value;
    return MX_OK;
}

/* Makes a step of the backward part read the recomputed values. */
static void redirect(mx_step *step, const use *uses, int64_t values)
{
    for (int k = 0; k < step->n_in; k++)
        if (step->in[k] >= 0 && step->in[k] < values && uses[step->in[k]].recomputed)
            step->in[k] = uses[step->in[k]].copy_value;
}

/* Repeats steps, in their order, before the backward step that first needs their result. */
static mx_code rebuild(mx_program *program, use *uses)
{
    const int64_t length = program->steps.length, values = program->values.length;
    MX_VEC(mx_step) steps = {0};
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < length; i++) {
        for (int64_t k = 0; !code && i >= program->forward && k < program->forward; k++) {
            const mx_step *made = &program->steps.items[k];
            mx_step copy;
            if (made->n_out != 1 || !uses[made->out[0]].recomputed || uses[made->out[0]].first != i)
                continue;
            code = repeat(program, uses, made, &copy);
            if (!code && !mx_vec_push(&steps, copy))
                code = MX_ERR_MEMORY;
        }
        if (i >= program->forward)
            redirect(&program->steps.items[i], uses, values);
        if (!code && !mx_vec_push(&steps, program->steps.items[i]))
            code = MX_ERR_MEMORY;
    }
    if (code) {
        mx_vec_free(&steps);
        return code;
    }
    mx_vec_free(&program->steps);
    program->steps.items = steps.items, program->steps.length = steps.length, program->steps.capacity = steps.capacity;
    mx_program_count(program);
    return MX_OK;
}

mx_code mx_pass_recompute(mx_program *program)
{
    const size_t values = (size_t)program->values.length;
    if (program->forward == program->steps.length || !program->forward)
        return MX_OK;
    use *uses = mx_alloc(values * sizeof *uses);
    if (!uses)
        return MX_ERR_MEMORY;
    find_uses(program, uses);
    const mx_code code = choose(program, uses) ? rebuild(program, uses) : MX_OK;
    mx_free(uses, values * sizeof *uses);
    return code;
}
