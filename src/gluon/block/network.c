/* Operations on a network: collecting, initialising and casting its parameters; applying functions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <regex.h>
#include <string.h>

#include "gluon/block/core.h"
#include "ndarray/dtype.h"

static bool ok(const mx_block *block, const char *function)
{
    return mx_is_kind(block, &mx_block_kind, function, "block");
}

static mx_code add_matching(const mx_dict *own, mx_params *into, const regex_t *pattern)
{
    for (int64_t i = 0; i < own->length; i++) {
        regmatch_t match;
        if (pattern && (regexec(pattern, own->entries[i].key, 1, &match, 0) || match.rm_so != 0))
            continue;
        if (mx_params_add(into, own->entries[i].pointer))
            return mx_error_code();
    }
    return MX_OK;
}

static mx_code collect(mx_block *block, mx_params *into, const regex_t *pattern)
{
    if (add_matching(&block->params->entries, into, pattern))
        return mx_error_code();
    for (int64_t i = 0; i < block->children.length; i++) {
        mx_block *child = block->children.entries[i].pointer;
        const mx_params *theirs = child->collects ? child->collects(child) : NULL;
        if (child->collects && !theirs)
            return mx_error_code();
        if (theirs ? add_matching(&theirs->entries, into, pattern) : collect(child, into, pattern))
            return mx_error_code();
    }
    return MX_OK;
}

mx_params *mx_collect_params(mx_block *block) { return mx_collect_params_matching(block, NULL); }

mx_params *mx_collect_params_matching(mx_block *block, const char *pattern)
{
    regex_t compiled;
    if (!ok(block, "mx_collect_params"))
        return NULL;
    mx_text anchored = {0};
    if (pattern)
        mx_text_print(&anchored, "^(%s)", pattern); /* matches must start at the beginning */
    bool bad = pattern && (!mx_text_get(&anchored) || regcomp(&compiled, mx_text_get(&anchored), REG_EXTENDED));
    mx_text_free(&anchored);
    if (bad)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_collect_params: '%s' is not a regular expression", pattern);
    mx_params *all = mx_params_new(block->params->prefix, NULL);
    mx_code code = all ? collect(block, all, pattern ? &compiled : NULL) : mx_error_code();
    if (pattern)
        regfree(&compiled);
    return code ? NULL : all;
}

mx_code mx_initialize_on(mx_block *block, mx_initializer *init, const mx_context *contexts, int count, bool force)
{
    MX_SCOPE;
    mx_params *all = ok(block, "mx_initialize") ? mx_collect_params(block) : NULL;
    return all ? mx_params_initialize(all, init, contexts, count, force) : mx_error_code();
}

mx_code mx_initialize(mx_block *block, mx_initializer *init, mx_context context)
{
    return mx_initialize_on(block, init, &context, 1, false);
}

mx_code mx_block_cast(mx_block *block, mx_dtype dtype)
{
    if (!ok(block, "mx_block_cast"))
        return mx_error_code();
    const bool narrow = mx_dtype_is_narrow(dtype);
    const mx_dtype own = narrow && block->layer && block->layer->wide ? MX_FLOAT32 : dtype;
    for (int64_t i = 0; i < block->params->entries.length; i++)
        if (mx_parameter_cast(block->params->entries.entries[i].pointer, own))
            return mx_error_code();
    for (int64_t i = 0; i < block->children.length; i++)
        if (mx_block_cast(block->children.entries[i].pointer, dtype))
            return mx_error_code();
    return MX_OK;
}

mx_code mx_block_apply(mx_block *block, mx_code (*fn)(mx_block *block, void *user), void *user)
{
    if (!ok(block, "mx_block_apply"))
        return mx_error_code();
    if (!fn)
        return mx_fail(MX_ERR_ARGUMENT, "mx_block_apply: fn is NULL, wanted a function");
    for (int64_t i = 0; i < block->children.length; i++)
        if (mx_block_apply(block->children.entries[i].pointer, fn, user))
            return mx_error_code();
    if (fn(block, user))
        return mx_fail(MX_ERR_CALLBACK, "mx_block_apply: the function failed on %s", block->name);
    return MX_OK;
}
