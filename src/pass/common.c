/* Common subexpressions: a step equal to an earlier one is replaced by its results.
 *
 * Equal means: operator, attributes, mode and inputs.  Steps with effects and steps that read what others write stay.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "pass/passes.h"

static uint64_t hash_of(const mx_step *step)
{
    uint64_t hash = (uint64_t)(uint32_t)step->op->id * 0x9e3779b97f4a7c15u + (uint64_t)step->n_in;
    for (int k = 0; k < step->n_in; k++)
        hash = (hash ^ (uint32_t)step->in[k]) * 0x9e3779b97f4a7c15u;
    return hash >> 16;
}

static bool equal(const mx_program *program, const mx_step *a, const mx_step *b)
{
    if (a->op != b->op || a->n_in != b->n_in || a->n_out != b->n_out || a->training != b->training ||
        memcmp(a->in, b->in, (size_t)a->n_in * sizeof *a->in) || !mx_schema_equal(a->op->schema, a->attrs, b->attrs))
        return false;
    for (int k = 0; k < a->n_out; k++)
        if (!mx_shape_equal(&program->values.items[a->out[k]].shape, &program->values.items[b->out[k]].shape))
            return false;
    return true;
}

mx_code mx_pass_common(mx_program *program)
{
    size_t size = 64;
    while (size < 2 * (size_t)program->steps.length)
        size *= 2;
    int32_t *table = mx_alloc_zero(size * sizeof *table); /* step + 1; 0: free */
    if (!table)
        return MX_ERR_MEMORY;
    for (int64_t i = 0; i < program->steps.length; i++) {
        mx_step *step = &program->steps.items[i];
        if (step->dead || mx_step_has_effects(program, step) || mx_step_reads_written(program, step))
            continue;
        size_t at = (size_t)hash_of(step) & (size - 1);
        for (; table[at] && !equal(program, &program->steps.items[table[at] - 1], step); at = (at + 1) & (size - 1))
            ;
        if (!table[at]) {
            table[at] = (int32_t)i + 1;
            continue;
        }
        const mx_step *first = &program->steps.items[table[at] - 1];
        for (int k = 0; k < step->n_out; k++)
            mx_program_replace(program, step->out[k], first->out[k]);
        step->dead = true;
    }
    mx_free(table, size * sizeof *table);
    mx_program_sweep(program);
    return MX_OK;
}
