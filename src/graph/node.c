/* Creating graph nodes, and the symbolic arrays of their outputs (see node.h).
 *
 * A node is one allocation: the struct, its inputs, shapes and types of its outputs, its attributes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "graph/node.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "graph/infer.h"
#include "op/schema_types.h"

static _Atomic uint64_t next_sequence = 1;

static void destroy_node(mx_object *object)
{
    mx_gnode *node = (mx_gnode *)object;
    mx_callee_drop(node->op, node->attrs);
    for (int i = 0; i < node->n_in; i++)
        mx_release(node->in[i].node);
    for (int64_t i = 0; i < node->notes.length; i++)
        mx_strfree(node->notes.entries[i].pointer);
    mx_dict_free(&node->notes);
    mx_strfree_packed(node->name);
    mx_release(node->value);
    mx_free_packed(node, node->bytes);
}
const mx_kind mx_gnode_kind = {"graph node", destroy_node};

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static mx_gnode *new_node(const char *name, int n_in, int n_out, size_t attr_bytes)
{
    const size_t in = (size_t)n_in, out = (size_t)n_out;
    const size_t fixed = sizeof(mx_gnode) + in * sizeof(mx_gentry) + out * (sizeof(mx_shape_t) + sizeof(int));
    const size_t attrs_at = (fixed + 15) / 16 * 16;
    mx_gnode *node = mx_alloc_packed(attrs_at + attr_bytes);
    if (!node)
        return NULL;
    memset(node, 0, attrs_at + attr_bytes);
    mx_object_init(&node->object, &mx_gnode_kind);
    char *p = (char *)(node + 1);
    node->in = (mx_gentry *)p, p += in * sizeof(mx_gentry);
    node->out_shape = (mx_shape_t *)p, p += out * sizeof(mx_shape_t);
    node->out_type = (int *)p;
    node->attrs = attr_bytes ? (char *)node + attrs_at : NULL;
    node->n_out = node->n_visible = n_out;
    node->bytes = attrs_at + attr_bytes;
    node->sequence = atomic_fetch_add_explicit(&next_sequence, 1, memory_order_relaxed);
    for (int i = 0; i < n_out; i++) {
        node->out_shape[i] = MX_UNKNOWN_SHAPE;
        node->out_type[i] = MX_DTYPE_NONE;
    }
    node->name = mx_strdup_packed(name);
    if (node->name)
        return node;
    mx_release(node);
    return NULL;
}

/* ---- variables ------------------------------------------------------------------------------------------------- */

mx_gnode *mx_gnode_variable(const char *name, const mx_shape_t *shape, int dtype)
{
    mx_gnode *node = new_node(name, 0, 1, 0);
    if (!node)
        return NULL;
    if (shape)
        node->out_shape[0] = *shape;
    node->out_type[0] = dtype;
    return node;
}

mx_gnode *mx_gnode_constant(const char *name, mx_array *value)
{
    mx_shape_t shape = mx_array_shape(value);
    mx_dims dims = mx_dims_of_shape(&shape);
    char shape_text[MX_SHAPE_TEXT], type[16];
    snprintf(type, sizeof type, "%d", value->dtype);
    mx_gnode *node = mx_gnode_variable(name, &shape, value->dtype);
    if (!node || mx_note_set(node, "__shape__", mx_dims_text(&dims, shape_text)) ||
        mx_note_set(node, "__dtype__", type)) {
        mx_release(node);
        return NULL;
    }
    node->value = mx_retain(value);
    node->context = value->context;
    return node;
}

/* ---- operators ------------------------------------------------------------------------------------------------- */

/* The fields that a file must name: those without a default and those that differ from it.  A scalar is always named:
 * older readers require it. */
static uint64_t fields_to_name(const mx_op *op, const void *attrs)
{
    uint64_t given = 0;
    for (int i = 0; op->schema && i < op->schema->count && i < 64; i++) {
        const mx_field *f = &op->schema->fields[i];
        const char *value = (const char *)attrs + f->offset, *usual = (const char *)op->defaults + f->offset;
        if (f->type == MX_FIELD_PTR)
            continue;
        if (!f->fallback || !mx_field_types[f->type].equal(value, usual) || !strcmp(f->name, "scalar"))
            given |= (uint64_t)1 << i;
    }
    return given;
}

/* An operator on a list stores the number of inputs. */
static void note_count(mx_gnode *node)
{
    const mx_field *f = mx_schema_find(node->op->schema, "num_args");
    int64_t *count = f && f->type == MX_FIELD_INT ? (int64_t *)((char *)node->attrs + f->offset) : NULL;
    if (!count)
        return;
    if (*count == MX_NONE_INT)
        *count = node->n_in;
    node->given |= (uint64_t)1 << (f - node->op->schema->fields);
}

static mx_code check_entries(const struct mx_gnode_args *args)
{
    for (int i = 0; i < args->n_in; i++) {
        const mx_gentry *e = &args->in[i];
        if (e->node && e->output >= (uint32_t)e->node->n_out)
            return mx_fail(MX_ERR_ARGUMENT, "%s (%s): input %d is output %u of %s, which has %d", args->name,
                           args->op->name, i, e->output, e->node->name, e->node->n_out);
    }
    return MX_OK;
}

/* The rule with `size` in place of unknown sizes of the inputs; what two runs agree on does not depend on it (see
 * graph/infer.c, which does this for whole graphs in both directions). */
static bool try_size(const mx_infer *known, int64_t size, mx_shape_t *in, mx_shape_t *out)
{
    int types[MX_MAX_OUTPUTS];
    mx_infer infer = *known;
    for (int i = 0; i < infer.n_in; i++) {
        in[i] = known->in[i];
        if (!mx_graph_put_sizes(&in[i], size))
            return false;
    }
    for (int i = 0; i < infer.n_out; i++) {
        out[i] = MX_UNKNOWN_SHAPE;
        types[i] = known->out_type[i];
    }
    infer.in = in;
    infer.out = out;
    infer.out_type = types;
    if (!mx_op_infer(&infer))
        return true;
    mx_error_clear();
    return false;
}

/* Most rules need known sizes: where one left an output open, the sizes that do not depend on unknown ones are found. */
static mx_code probe_outputs(const mx_infer *known)
{
    bool partial = false, open = false;
    for (int i = 0; i < known->n_in; i++)
        partial |= known->in[i].ndim >= 0 && !mx_shape_known(&known->in[i]);
    for (int i = 0; i < known->n_out; i++)
        open |= known->out[i].ndim < 0;
    if (!partial || !open || known->n_out > MX_MAX_OUTPUTS || (known->op->flags & MX_OP_CALLS) || mx_has_error())
        return MX_OK;
    const size_t bytes = (size_t)(known->n_in + 2 * known->n_out) * sizeof(mx_shape_t);
    mx_shape_t *in = mx_alloc(bytes), *one = in + known->n_in, *two = one + known->n_out;
    if (!in)
        return MX_ERR_MEMORY;
    if (try_size(known, 2520, in, one) && try_size(known, 5040, in, two))
        for (int i = 0; i < known->n_out; i++)
            if (known->out[i].ndim < 0 && one[i].ndim == two[i].ndim) {
                known->out[i] = one[i];
                for (int d = 0; d < one[i].ndim; d++)
                    known->out[i].dim[d] = one[i].dim[d] == two[i].dim[d] ? one[i].dim[d] : -1;
            }
    mx_free(in, bytes);
    return MX_OK;
}

/* Operators see all declared inputs while inferring: those omitted at the end are unknown. */
static mx_code infer_outputs(mx_gnode *node)
{
    const mx_op *op = node->op;
    const bool pad = !(op->flags & MX_OP_LIST) && node->n_in < op->declared_inputs;
    const int n_in = pad ? op->declared_inputs : node->n_in;
    const size_t bytes = (size_t)n_in * (sizeof(mx_shape_t) + sizeof(int)) + 1;
    mx_shape_t *in = mx_alloc(bytes);
    if (!in)
        return MX_ERR_MEMORY;
    int *in_type = (int *)(in + n_in);
    for (int i = 0; i < n_in; i++) {
        const mx_gentry e = i < node->n_in ? node->in[i] : (mx_gentry){0};
        in[i] = e.node ? e.node->out_shape[e.output] : MX_UNKNOWN_SHAPE;
        in_type[i] = e.node ? e.node->out_type[e.output] : MX_DTYPE_NONE;
    }
    mx_infer infer = {op, node->attrs, n_in, node->n_out, in, node->out_shape, in_type, node->out_type, NULL};
    const bool clean = !mx_has_error();
    mx_code code = mx_op_infer(&infer);
    if (code && clean)
        mx_error_mention(node->name);
    code = code ? code : probe_outputs(&infer);
    mx_free(in, bytes);
    return code;
}

mx_gnode *mx_gnode_make(const struct mx_gnode_args *args)
{
    mx_op *op = args->op;
    const void *attrs = args->attrs ? args->attrs : op->defaults;
    int n_in = args->n_in;
    while (n_in && !args->in[n_in - 1].node)
        n_in--;
    const int n_out = mx_op_count_out(op, attrs);
    if (n_out < 0 || n_out > MX_MAX_OUTPUTS)
        return mx_fail_null(MX_ERR_ARGUMENT, "%s (%s): has %d outputs, at most %d are possible", args->name, op->name,
                            n_out, MX_MAX_OUTPUTS);
    const size_t attr_bytes = op->schema ? op->schema->size : 0;
    mx_gnode *node = check_entries(args) ? NULL : new_node(args->name, n_in, n_out, attr_bytes);
    if (!node)
        return NULL;
    node->op = op;
    node->n_visible = mx_op_count_visible(op, attrs);
    if (attr_bytes)
        memcpy(node->attrs, attrs, attr_bytes);
    mx_callee_keep(op, node->attrs);
    node->given = args->given ? *args->given : fields_to_name(op, attrs);
    node->n_in = n_in;
    if (op->flags & MX_OP_LIST)
        note_count(node);
    for (int i = 0; i < n_in; i++) {
        node->in[i] = (mx_gentry){mx_retain(args->in[i].node), args->in[i].output};
        if (args->in[i].node && !node->context.type)
            node->context = args->in[i].node->context;
    }
    if (!infer_outputs(node))
        return node;
    mx_release(node);
    return NULL;
}

static mx_code copy_notes(mx_gnode *to, const mx_gnode *from)
{
    for (int64_t i = 0; i < from->notes.length; i++)
        if (mx_note_set(to, from->notes.entries[i].key, from->notes.entries[i].pointer))
            return mx_error_code();
    return MX_OK;
}

mx_gnode *mx_gnode_with_inputs(const mx_gnode *node, const mx_gentry *in)
{
    struct mx_gnode_args args = {node->op, node->attrs, &node->given, node->name, node->n_in, in};
    mx_gnode *made =
        node->op ? mx_gnode_make(&args) : mx_gnode_variable(node->name, &node->out_shape[0], node->out_type[0]);
    if (!made)
        return NULL;
    made->context = node->context;
    made->value = mx_retain(node->value);
    made->owner = node->owner;
    if (!copy_notes(made, node))
        return made;
    mx_release(made);
    return NULL;
}

/* ---- notes and names ------------------------------------------------------------------------------------------- */

const char *mx_note_get(const mx_gnode *node, const char *key) { return mx_dict_get(&node->notes, key); }

mx_code mx_note_set(mx_gnode *node, const char *key, const char *text)
{
    mx_dict_entry *old = mx_dict_find(&node->notes, key);
    if (!text) {
        char *owned = old ? old->pointer : NULL;
        mx_dict_remove(&node->notes, key);
        mx_strfree(owned);
        return MX_OK;
    }
    char *copy = mx_strdup(text);
    mx_dict_entry *entry = copy ? mx_dict_place(&node->notes, key) : NULL;
    if (!entry)
        return mx_strfree(copy), mx_error_code();
    mx_strfree(entry->pointer);
    entry->pointer = copy;
    return MX_OK;
}

static const char *output_name(const mx_gnode *node, int output, char buffer[64])
{
    const mx_callee *callee = mx_callee_of(node->op, node->attrs);
    if (callee && callee->methods && callee->methods->output_name && output < node->n_visible)
        return callee->methods->output_name(callee, output);
    if (node->op->outputs_numbered && node->n_out > 1)
        return snprintf(buffer, 64, "output%d", output), buffer;
    if (node->n_visible == 1 && !output && (callee || node->op->outputs_numbered))
        return "output";
    return mx_op_output_name(node->op, output, buffer);
}

void mx_gentry_name(const mx_gentry *entry, mx_text *text)
{
    char output[64];
    mx_text_add(text, entry->node->name);
    if (!entry->node->op)
        return;
    mx_text_add_char(text, '_');
    mx_text_add(text, output_name(entry->node, (int)entry->output, output));
}

/* ---- symbolic arrays ------------------------------------------------------------------------------------------- */

mx_array *mx_array_symbolic(mx_gnode *node, uint32_t output)
{
    const mx_shape_t *shape = &node->out_shape[output];
    const int type = node->out_type[output];
    /* A known size needs a valid type; the array's dtype can then be set to unknown. */
    mx_array *x = mx_array_abstract(mx_dtype_valid(type) ? shape : &MX_UNKNOWN_SHAPE,
                                    mx_dtype_valid(type) ? (mx_dtype)type : MX_FLOAT32, node->context);
    if (!x)
        return NULL;
    if (!mx_dtype_valid(type)) {
        x->dtype = MX_DTYPE_NONE;
        x->ndim = (int8_t)shape->ndim;
        for (int i = 0; i < shape->ndim; i++)
            x->shape[i] = shape->dim[i];
        x->size = mx_shape_known(shape) ? mx_shape_size(shape) : 0;
    }
    x->node = (struct mx_node *)(void *)mx_retain(node);
    x->node_output = output;
    return x;
}
