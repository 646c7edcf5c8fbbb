/* On a GPU: results of normalisations that the backward part reads are made again there instead of being kept.
 *
 *     forward   x = conv(...); y = _norm_apply(x, mean, inverse); z = conv(y, w)
 *     backward  y' = _norm_apply(x, mean, inverse); gw = weight gradient(y', gz)          x is kept anyway
 *
 * One more walk over memory instead of nearly half of what training a convolutional network keeps.  A result with an addend
 * is made again only if the addend is kept, so of a chain of residual blocks every second one.  Networks whose values need
 * little memory stay as they are.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "gluon/op.gen.h"
#include "ndarray/device.h"
#include "pass/passes.h"

#define LEAST_BYTES ((int64_t)8 << 30) /* that the backward part would find: less is not worth the time */

/* What the steps say about a value. */
typedef struct use {
    int32_t first; /* step of the backward part that first reads it; -1: none */
    int32_t last;  /* the last such step */
    bool remade;   /* it is made again there */
} use;

static void find_uses(const mx_program *program, use *uses)
{
    for (int64_t v = 0; v < program->values.length; v++)
        uses[v] = (use){-1, -1, false};
    for (int64_t i = program->forward; i < program->steps.length; i++)
        for (int k = 0; k < program->steps.items[i].n_in; k++) {
            const int32_t v = program->steps.items[i].in[k];
            if (v < 0)
                continue;
            uses[v].first = uses[v].first < 0 ? (int32_t)i : uses[v].first;
            uses[v].last = (int32_t)i;
        }
}

static int64_t kept_bytes(const mx_program *program, const use *uses)
{
    int64_t bytes = 0;
    for (int64_t v = 0; v < program->values.length; v++)
        if (uses[v].first >= 0 && program->values.items[v].maker >= 0 &&
            program->values.items[v].maker < program->forward)
            bytes += mx_value_bytes(&program->values.items[v]);
    return bytes;
}

static bool is_head(const mx_program *program, int32_t v)
{
    for (int64_t h = 0; h < program->heads.length; h++)
        if (program->heads.items[h] == v)
            return true;
    return false;
}

/* The value is there in the backward part until `step`, whether anything is made again or not. */
static bool is_kept(const mx_program *program, const use *uses, int32_t v, int32_t step)
{
    return v < 0 || program->values.items[v].external >= 0 || (!uses[v].remade && uses[v].last >= step);
}

static bool suits(const mx_program *program, const use *uses, const mx_step *step)
{
    const int32_t y = step->n_out == 1 ? step->out[0] : -1;
    if (y < 0 || strcmp(step->op->name, "_norm_apply") || uses[y].first < 0 || is_head(program, y))
        return false;
    for (int k = 0; k < step->n_in; k++)
        if (!is_kept(program, uses, step->in[k], uses[y].first))
            return false;
    return true;
}

/* Steps to be made again, each before the backward step that first reads its result. */
static mx_code rebuild(mx_program *program, const use *uses, const int32_t *again, int64_t count)
{
    const int64_t length = program->steps.length;
    MX_VEC(mx_step) steps = {0};
    for (int64_t i = 0; i < length; i++) {
        for (int64_t k = 0; i >= program->forward && k < count; k++) {
            const mx_step *made = &program->steps.items[again[k]];
            const int32_t y = made->out[0];
            if (uses[y].first != i)
                continue;
            const mx_value value = program->values.items[y];
            const int32_t twin = mx_program_value(program, &value.shape, value.dtype);
            int32_t *out = mx_program_alloc(program, sizeof *out);
            mx_step copy = *made;
            if (twin < 0 || !out || !mx_vec_push(&steps, copy)) {
                mx_vec_free(&steps);
                return MX_ERR_MEMORY;
            }
            *out = twin;
            steps.items[steps.length - 1].out = out;
            for (int64_t s = i; s < length; s++)
                for (int n = 0; n < program->steps.items[s].n_in; n++)
                    if (program->steps.items[s].in[n] == y)
                        program->steps.items[s].in[n] = twin;
        }
        if (!mx_vec_push(&steps, program->steps.items[i])) {
            mx_vec_free(&steps);
            return MX_ERR_MEMORY;
        }
    }
    mx_vec_free(&program->steps);
    program->steps.items = steps.items, program->steps.length = steps.length, program->steps.capacity = steps.capacity;
    mx_program_count(program);
    return MX_OK;
}

mx_code mx_pass_recompute(mx_program *program)
{
    const size_t values = (size_t)program->values.length, steps = (size_t)program->forward;
    if (mx_context_is_host(program->context) || program->forward == program->steps.length || !steps)
        return MX_OK;
    const size_t bytes = values * sizeof(use) + steps * sizeof(int32_t);
    use *uses = mx_alloc(bytes);
    if (!uses)
        return MX_ERR_MEMORY;
    int32_t *again = (int32_t *)(uses + values);
    int64_t count = 0;
    find_uses(program, uses);
    const bool much = kept_bytes(program, uses) >= LEAST_BYTES;
    for (int32_t i = 0; much && i < program->forward; i++)
        if (suits(program, uses, &program->steps.items[i])) {
            uses[program->steps.items[i].out[0]].remade = true;
            again[count++] = i;
        }
    const mx_code code = count ? rebuild(program, uses, again, count) : MX_OK;
    mx_free(uses, bytes);
    return code;
}
