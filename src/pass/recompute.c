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
#include "pass/repeat.h"

#define LEAST_BYTES ((int64_t)8 << 30)    /* saved for the backward part: less is not worth the time */
#define ENOUGH_BYTES ((int64_t)13 << 29) /* below this no chains are recomputed */

static int64_t saved_bytes(const mx_program *program, const mx_read *reads)
{
    int64_t bytes = 0;
    for (int64_t v = 0; v < program->values.length; v++)
        if (reads[v].first >= 0 && program->values.items[v].maker >= 0 &&
            program->values.items[v].maker < program->forward)
            bytes += mx_value_bytes(&program->values.items[v]);
    return bytes;
}

/* The value is in memory in the backward part until `step`, whether anything is recomputed or not. */
static bool is_saved(const mx_program *program, const mx_read *reads, int32_t v, int32_t step)
{
    return v < 0 || program->values.items[v].external >= 0 || (!reads[v].repeated && reads[v].last >= step);
}

/* chain: also if inputs are themselves recomputed */
static bool suits(const mx_program *program, const mx_read *reads, const mx_step *step, bool chain)
{
    const int32_t y = step->n_out == 1 ? step->out[0] : -1;
    if (y < 0 || strcmp(step->op->name, "_norm_apply") || reads[y].first < 0 || reads[y].repeated ||
        mx_is_result(program, y))
        return false;
    for (int k = 0; k < step->n_in; k++) {
        const int32_t v = step->in[k];
        if (!is_saved(program, reads, v, reads[y].first) && !(chain && reads[v].repeated))
            return false;
    }
    return true;
}

/* Marks values to recompute. */
static int64_t choose(const mx_program *program, mx_read *reads)
{
    int64_t saved = saved_bytes(program, reads), count = 0;
    if (saved < LEAST_BYTES)
        return 0;
    for (int chain = 0; chain < 2; chain++)
        for (int32_t i = 0; i < program->forward && (!chain || saved > ENOUGH_BYTES); i++)
            if (suits(program, reads, &program->steps.items[i], chain)) {
                const int32_t y = program->steps.items[i].out[0];
                reads[y].repeated = true;
                saved -= mx_value_bytes(&program->values.items[y]);
                count++;
            }
    return count;
}

mx_code mx_pass_recompute(mx_program *program)
{
    const size_t bytes = (size_t)program->values.length * sizeof(mx_read);
    if (program->forward == program->steps.length || !program->forward)
        return MX_OK;
    mx_read *reads = mx_reads_new(program);
    if (!reads)
        return MX_ERR_MEMORY;
    const mx_code code = choose(program, reads) ? mx_reads_repeat(program, reads) : MX_OK;
    mx_free(reads, bytes);
    return code;
}
