/* Every result of the program gets its own memory.
 *
 * A result is written directly into the array that the caller gets.  That is not possible if it is an external (a
 * net that returns its input), if two results share memory (a value and its reshaped form, one value twice) or if
 * a gradient is a view of something that the forward part computed.  Then a copy is made.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "pass/passes.h"

/* The value that v is a view of. */
static int32_t root_of(const mx_program *program, int32_t v)
{
    for (;;) {
        const int32_t maker = program->values.items[v].maker;
        if (maker < 0 || !(program->steps.items[maker].op->flags & MX_OP_VIEW))
            return v;
        v = program->steps.items[maker].in[0];
    }
}

static bool needs_copy(const mx_program *program, int64_t h)
{
    const int32_t root = root_of(program, program->results.items[h]);
    const mx_value *value = &program->values.items[root];
    if (value->external >= 0 || value->maker < 0)
        return true;
    if (h >= program->forward_results && value->maker < program->forward)
        return true;
    for (int64_t k = 0; k < h; k++)
        if (program->results.items[k] >= 0 && root_of(program, program->results.items[k]) == root)
            return true;
    return false;
}

static mx_code insert_copy(mx_program *program, int64_t h)
{
    const int32_t from = program->results.items[h];
    const mx_value value = program->values.items[from];
    const int32_t to = mx_program_value(program, &value.shape, value.dtype);
    int32_t *lists = mx_program_alloc(program, 2 * sizeof *lists);
    if (to < 0 || !lists || !mx_vec_reserve(&program->steps, program->steps.length + 1))
        return MX_ERR_MEMORY;
    lists[0] = from, lists[1] = to;
    const int64_t at = h < program->forward_results ? program->forward : program->steps.length;
    mx_step copy = {.op = MX_OP("_copy"), .in = lists, .out = lists + 1, .n_in = 1, .n_out = 1, .name = "result"};
    memmove(&program->steps.items[at + 1], &program->steps.items[at],
            (size_t)(program->steps.length - at) * sizeof(mx_step));
    program->steps.items[at] = copy;
    program->steps.length++;
    program->forward += h < program->forward_results;
    program->results.items[h] = to;
    mx_program_count(program);
    return MX_OK;
}

mx_code mx_pass_results(mx_program *program)
{
    for (int64_t h = 0; h < program->results.length; h++)
        if (program->results.items[h] >= 0 && needs_copy(program, h) && insert_copy(program, h))
            return MX_ERR_MEMORY;
    return MX_OK;
}
