/* Continuing texts: the cache of keys and values and the call that uses it (see gluon/zoo/gpt2.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "exec/list.h"
#include "gluon/op.gen.h"
#include "gluon/zoo.h"
#include "gluon/zoo/gpt2.h"

static bool continues(const mx_block *net, const char *function)
{
    if (!mx_is_kind(net, &mx_block_kind, function, "net"))
        return false;
    if (net->cls && !strcmp(net->cls->name, "GPT2"))
        return true;
    mx_fail(MX_ERR_ARGUMENT, "%s: %s is a %s, wanted a GPT2", function, net->name, net->class_name);
    return false;
}

mx_arrays mx_text_cache(mx_block *net, int64_t texts, int64_t length)
{
    if (!continues(net, "mx_text_cache"))
        return mx_list_failed();
    const mx_gpt2_sizes s = mx_gpt2_sizes_of(net);
    if (texts < 1 || length < 1 || length > s.length) {
        mx_fail(MX_ERR_ARGUMENT, "mx_text_cache: %lld texts of %lld tokens, wanted at least 1 of 1 to %lld",
                (long long)texts, (long long)length, (long long)s.length);
        return mx_list_failed();
    }
    mx_block *word = mx_dict_get(&net->children, "word");
    mx_array **list = mx_list_new(2 * s.layers), *weight = mx_parameter_data(word->own.items[0], (mx_context){0});
    for (int64_t i = 0; list && weight && i < 2 * s.layers; i++)
        if (!(list[i] = mx_zeros(.shape = MX_DIMS(texts * s.heads, length, s.units / s.heads), .ctx = weight->context,
                                 .dtype = (mx_dtype)weight->dtype)))
            return mx_list_failed();
    return list && weight ? (mx_arrays){list, 2 * s.layers} : mx_list_failed();
}

mx_arrays mx_text_step(mx_block *net, mx_array *tokens, mx_array *start, mx_arrays cache)
{
    if (!continues(net, "mx_text_step") || mx_list_check_inputs(&cache, "mx_text_step", "cache"))
        return mx_list_failed();
    mx_array **in = mx_list_new(2 + cache.n);
    if (!in)
        return mx_list_failed();
    in[0] = tokens, in[1] = start;
    memcpy(in + 2, cache.v, (size_t)cache.n * sizeof *in);
    return mx_block_call_many(net, (mx_arrays){in, 2 + cache.n});
}
