/* Networks as text: the nested listing and the summary table.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "exec/list.h"
#include "gluon/block/core.h"

/* ---- listing ------------------------------------------------------------------------------------------------------- */

/* A transform: its name and its options. */
static void print_options(mx_block *block, mx_text *text)
{
    const mx_schema *schema = block->cls->schema;
    mx_text_print(text, "%s(", block->class_name);
    for (int i = 0; schema && i < schema->count; i++) {
        char buffer[MX_VALUE_TEXT];
        mx_text_print(text, "%s%s=%s", i ? ", " : "", schema->fields[i].name,
                      mx_field_text(&schema->fields[i], mx_options(block), buffer));
    }
    mx_text_add(text, ")");
}

static void print_block(mx_block *block, mx_text *text, int depth)
{
    if (block->layer && block->layer->print) {
        block->layer->print(block, text);
        return;
    }
    if (block->cls && block->cls->group && !strcmp(block->cls->group, "transforms")) {
        print_options(block, text);
        return;
    }
    mx_text_print(text, "%s(\n%s", block->class_name, block->children.length ? "" : "\n");
    for (int64_t i = 0; i < block->children.length; i++) {
        mx_text_print(text, "%*s(%s): ", 2 * (depth + 1), "", block->children.entries[i].key);
        print_block(block->children.entries[i].pointer, text, depth + 1);
        mx_text_add(text, "\n");
    }
    mx_text_print(text, "%*s)", 2 * depth, "");
}

const char *mx_block_text(mx_block *block)
{
    if (!mx_is_kind(block, &mx_block_kind, "mx_block_text", "block"))
        return NULL;
    mx_text text = {0};
    print_block(block, &text, 0);
    return mx_text_to_scope(&text);
}

/* ---- summary ------------------------------------------------------------------------------------------------------- */

#define ROW "%20.40s  %42.60s %15lld\n"

typedef struct summary {
    mx_text text;
    int rows;
    int64_t total, trainable;
    mx_dict seen; /* names of parameters that were counted */
    MX_VEC(struct {
        mx_block *block;
        uint64_t handle;
    })
    hooks;
} summary;

static int64_t count_own(summary *s, mx_block *block)
{
    int64_t own = 0;
    for (int64_t i = 0; i < block->own.length; i++) {
        mx_parameter *p = block->own.items[i];
        const int64_t size = mx_shape_known(&p->shape) ? mx_shape_size(&p->shape) : 0;
        own += size;
        if (mx_dict_count(&s->seen, p->name) > 0)
            continue; /* shared: counted once in the totals */
        s->total += size;
        s->trainable += p->req == MX_GRAD_NULL ? 0 : size;
    }
    return own;
}

static void shapes_text(mx_arrays out, char *buffer, size_t bytes)
{
    size_t used = 0;
    char shape[MX_SHAPE_TEXT];
    for (int64_t i = 0; i < out.n && used < bytes - 1; i++) {
        if (out.v[i] == MX_NONE)
            continue;
        mx_dims dims = mx_shape(out.v[i]);
        used += (size_t)snprintf(buffer + used, bytes - used, "%s%s", i ? ", " : "", mx_dims_text(&dims, shape));
    }
}

static mx_code note_output(mx_block *block, mx_arrays in, mx_arrays out, void *user)
{
    summary *s = user;
    char name[64], shapes[256] = "";
    (void)in;
    if (mx_inferring())
        return MX_OK;
    snprintf(name, sizeof name, "%.40s-%d", block->class_name, ++s->rows);
    shapes_text(out, shapes, sizeof shapes);
    mx_text_print(&s->text, ROW, name, shapes, (long long)count_own(s, block));
    return MX_OK;
}

static mx_code watch(mx_block *block, void *user)
{
    summary *s = user;
    if (block->sequential)
        return MX_OK;
    uint64_t handle = mx_block_hook(block, false, note_output, s);
    if (!handle || !mx_vec_reserve(&s->hooks, s->hooks.length + 1))
        return mx_error_code();
    s->hooks.items[s->hooks.length].block = block;
    s->hooks.items[s->hooks.length++].handle = handle;
    return MX_OK;
}

static void frame(summary *s, mx_arrays in)
{
    char shapes[256] = "", line[81];
    memset(line, '-', 80);
    line[80] = 0;
    shapes_text(in, shapes, sizeof shapes);
    mx_text_print(&s->text, "%s\n%20s  %42s %15s\n", line, "Layer (type)", "Output Shape", "Param #");
    memset(line, '=', 80);
    mx_text_print(&s->text, "%s\n" ROW, line, "Input", shapes, 0LL);
}

static void totals(summary *s)
{
    char line[81];
    memset(line, '=', 80);
    line[80] = 0;
    mx_text_print(&s->text, "%s\n%20s  %42s %15lld\n%20s  %42s %15lld\n%20s  %42s %15lld\n", line, "",
                  "all parameters, shared ones once", (long long)s->total, "", "trainable", (long long)s->trainable, "",
                  "fixed", (long long)(s->total - s->trainable));
    memset(line, '-', 80);
    mx_text_print(&s->text, "%s\n", line);
}

const char *mx_block_summary(mx_block *block, mx_arrays in)
{
    if (!mx_is_kind(block, &mx_block_kind, "mx_block_summary", "block"))
        return NULL;
    if (mx_list_check(&in, "mx_block_summary", "in"))
        return NULL;
    summary s = {0};
    frame(&s, in);
    mx_code code = mx_block_apply(block, watch, &s);
    if (!code) {
        MX_SCOPE;
        const bool paused = mx_thread.hybrid_paused;
        mx_thread.hybrid_paused = true; /* a plan would not call the hooks */
        code = mx_block_call_many(block, in).n ? MX_OK : mx_error_code();
        mx_thread.hybrid_paused = paused;
    }
    for (int64_t i = 0; i < s.hooks.length; i++)
        mx_block_unhook(s.hooks.items[i].block, s.hooks.items[i].handle);
    mx_vec_free(&s.hooks);
    mx_dict_free(&s.seen);
    totals(&s);
    if (!code)
        return mx_text_to_scope(&s.text);
    mx_text_free(&s.text);
    return NULL;
}
