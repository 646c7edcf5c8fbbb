/* The verifier: the invariants of program.h, checked between passes.  SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/error.h"
#include "pass/passes.h"

static mx_code broken(const mx_step *step, const char *after, const char *what)
{
    return mx_fail(MX_ERR_STATE, "plan: after pass %s step %s (%s) %s", after, step->name, step->op->name, what);
}

static mx_code check_step(const mx_program *program, int64_t i, const bool *made, const char *after)
{
    const mx_step *step = &program->steps.items[i];
    for (int k = 0; k < step->n_in; k++) {
        const int32_t v = step->in[k];
        if (v >= program->values.length)
            return broken(step, after, "reads a value that does not exist");
        if (v >= 0 && program->values.items[v].external < 0 && !made[v])
            return broken(step, after, "reads a value before it is computed");
    }
    for (int k = 0; k < step->n_out; k++) {
        const int32_t v = step->out[k];
        if (v < 0 || v >= program->values.length)
            return broken(step, after, "writes a value that does not exist");
        if (made[v] && program->values.items[v].external < 0)
            return broken(step, after, "writes a value that was written before");
        if (!mx_shape_known(&program->values.items[v].shape))
            return broken(step, after, "writes a value of unknown shape");
    }
    return MX_OK;
}

static mx_code check_results(const mx_program *program, const bool *made, const char *after, int64_t from, int64_t to)
{
    for (int64_t h = from; h < to; h++) {
        const int32_t v = program->results.items[h];
        if (v >= 0 && program->values.items[v].external < 0 && !made[v])
            return mx_fail(MX_ERR_STATE, "plan: after pass %s result %lld is not computed by any step", after,
                           (long long)h);
    }
    return MX_OK;
}

mx_code mx_program_verify(const mx_program *program, const char *after)
{
    const size_t bytes = (size_t)program->values.length + 1;
    bool *made = mx_alloc_zero(bytes);
    if (!made)
        return MX_ERR_MEMORY;
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < program->steps.length; i++) {
        const mx_step *step = &program->steps.items[i];
        if (i == program->forward)
            code = check_results(program, made, after, 0, program->forward_results);
        if (step->dead || code)
            continue;
        code = check_step(program, i, made, after);
        for (int k = 0; !code && k < step->n_out; k++)
            made[step->out[k]] = true;
    }
    if (!code)
        code = check_results(program, made, after, 0, program->results.length);
    mx_free(made, bytes);
    return code;
}
