/* The names of blocks and parameters.
 *
 *     outside any scope:      Dense -> "dense0_", "dense1_" ... (counters of the thread, shared with symbols)
 *     in the scope of net0_:  Dense -> "net0_dense0_" ...       (counters of the block)
 *     prefix given:           as given, after the scope's prefix
 *     prefix "":              the block's own scope does nothing; children are named by the enclosing scope
 *
 * A parameter's full name is prefix + name.  With `params` (sharing), that dictionary's prefix is used.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "gluon/block/core.h"
#include "graph/names.h"

mx_naming mx_naming_enter(mx_block *block)
{
    mx_naming naming = {mx_thread.name_scope, true, false};
    if (mx_is_kind(block, &mx_block_kind, "mx_name_scope", "block") && !block->plain_scope) {
        mx_thread.name_scope = block;
        naming.named = !mx_names_push(block->prefix); /* symbols created inside are named after the block, too */
    }
    return naming;
}

void mx_naming_leave(mx_naming *naming)
{
    if (!naming || !naming->open)
        return;
    mx_thread.name_scope = naming->outer;
    if (naming->named)
        mx_names_pop();
    naming->open = naming->named = false;
}

/* The block's own part of the prefix: what was given, or hint and number. */
static char *own_part(const char *hint, const char *prefix)
{
    mx_text text = {0};
    if (prefix) {
        mx_text_add(&text, prefix);
    } else if (mx_thread.name_scope) {
        int64_t n = mx_dict_count(&mx_thread.name_scope->counters, hint);
        if (n < 0)
            return NULL;
        mx_text_print(&text, "%s%lld_", hint, (long long)n);
    } else { /* the counters of automatic symbol names */
        char *name = mx_names_make(NULL, hint);
        if (!name)
            return NULL;
        mx_text_print(&text, "%s_", name);
        mx_strfree(name);
    }
    return mx_text_take(&text);
}

static char *joined(const char *a, const char *b)
{
    mx_text text = {0};
    mx_text_add(&text, a);
    mx_text_add(&text, b);
    return mx_text_take(&text);
}

static mx_params *dictionary(const char *own, mx_params *params)
{
    if (params)
        return mx_params_new(params->prefix, params);
    if (!mx_thread.name_scope)
        return mx_params_new(own, NULL);
    char *prefix = joined(mx_thread.name_scope->params->prefix, own);
    mx_params *made = prefix ? mx_params_new(prefix, mx_thread.name_scope->params->shared) : NULL;
    mx_strfree(prefix);
    return made;
}

static char *name_of(const char *prefix)
{
    char *name = mx_strdup(prefix);
    size_t length = name ? strlen(name) : 0;
    if (!length || name[length - 1] != '_')
        return name;
    name[length - 1] = 0;
    char *shorter = mx_strdup(name);
    name[length - 1] = '_'; /* restored: it is freed by its length */
    mx_strfree(name);
    return shorter;
}

mx_code mx_name_block(mx_block *block, const char *hint, const char *prefix, mx_params *params)
{
    MX_SCOPE;
    if (params && !mx_is_kind(params, &mx_params_kind, block->class_name, "params"))
        return mx_error_code();
    char *own = own_part(hint, prefix);
    if (!own)
        return mx_error_code();
    block->plain_scope = prefix && !*prefix;
    block->prefix = mx_thread.name_scope ? joined(mx_thread.name_scope->prefix, own) : mx_strdup(own);
    block->name = block->prefix ? name_of(block->prefix) : NULL;
    block->params = mx_retain(dictionary(own, params));
    mx_strfree(own);
    return block->name && block->params ? MX_OK : mx_error_code();
}
