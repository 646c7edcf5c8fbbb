/* Symbols from JSON of any classic version.
 *
 * The text is parsed strictly (base/json.h: depth and memory are bounded by its size); then nodes are created in file
 * order, each from nodes before it, so there can be no cycle.  Every id, output number and attribute is checked;
 * messages name the node, the line and (from mx_symbol_load) the file.  Subgraphs of a node are read in the same way.
 *
 * Differences of older versions are upgraded while reading:
 *     attributes were under "attr" and "param"
 *     lr_mult, ctx_group ... had no underscores; weight_lr_mult on an operator belongs to its input   (before 1.0)
 *     auxiliary states were not inputs                                                               (before 0.9)
 *     axis=-1 of argmax and argmin meant "all"                                                       (before 0.9.5)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/vec.h"
#include "gluon/limits.h"
#include "graph/apply.h"
#include "graph/call.h"
#include "graph/custom.h"
#include "graph/names.h"
#include "graph/np_names.h"
#include "graph/subgraph.h"
#include "graph/symbol.h"

#define LARGEST_FILE ((int64_t)1 << 30)

typedef struct reading {
    const mx_json *nodes; /* the array */
    mx_gnode **made;      /* (count of nodes) created so far, retained */
    int64_t count;        /* number of them */
    int64_t version;      /* major * 10000 + minor * 100 + patch */
} reading;

typedef MX_VEC(const char *) texts;

/* A node being read. */
typedef struct draft {
    const mx_json *json;
    const char *name, *type;
    mx_op *op;   /* NULL: a variable */
    void *attrs; /* typed; owned */
    uint64_t given;
    mx_dict notes;      /* texts of the JSON, not owned */
    mx_gentry *entries; /* (room) references held by `reading` or, for added variables, by `extra` */
    int n_in, room;
    mx_pointers extra;   /* variables added for inputs that old files omit; retained */
    texts keys, options; /* options of a user's operator; texts of the JSON, not owned */
    mx_np_number number; /* of a function of mx.np: where `scalar` is among its operands */
    double scalar;
    bool is_int;       /* the scalar is an integer */
    mx_callee *callee; /* subgraphs or a user's operator; retained, and in attrs */
} draft;

static mx_symbol *read_graph(const mx_json *root, int64_t version);

/* ---- entries: [node, output] or [node, output, version] -------------------------------------------------------- */

static mx_code read_entry(const reading *r, const mx_json *json, const char *who, mx_gentry *entry)
{
    int64_t id, output;
    const int64_t n = mx_json_count(json);
    if (mx_json_kind_of(json) != MX_JSON_ARRAY || n < 2 || n > 3)
        return mx_json_fail(json, "%s: an input is not [node, output, version]", who), mx_error_code();
    if (!mx_json_int(mx_json_at(json, 0), &id) || !mx_json_int(mx_json_at(json, 1), &output))
        return mx_error_code();
    if (id < 0 || id >= r->count)
        return mx_json_fail(json, "%s: input node %lld does not precede it (%lld nodes do): out of range or a cycle",
                            who, (long long)id, (long long)r->count),
               mx_error_code();
    mx_gnode *node = r->made[id];
    if (output < 0 || output >= node->n_out)
        return mx_json_fail(json, "%s: node %lld (%s) has %d outputs, number %lld was requested", who, (long long)id,
                            node->name, node->n_out, (long long)output),
               mx_error_code();
    *entry = (mx_gentry){node, (uint32_t)output};
    return MX_OK;
}

/* ---- attributes ------------------------------------------------------------------------------------------------ */

static bool is_old_argmax(const reading *r, const draft *d, const char *key, const char *text)
{
    return r->version < 905 && !strcmp(key, "axis") && !strcmp(text, "-1") &&
           (!strcmp(d->type, "argmax") || !strcmp(d->type, "argmin"));
}

/* "weight_lr_mult" on an operator: a note of the input called weight. */
static bool is_input_note(const draft *d, const char *key)
{
    static const char *const endings[] = {"_ctx_group", "_lr_mult", "_wd_mult", "_force_mirroring", "_mirror_stage"};
    const size_t length = strlen(key);
    for (size_t i = 0; d->op && i < sizeof endings / sizeof *endings; i++) {
        const size_t end = strlen(endings[i]);
        if (length > end && !strcmp(key + length - end, endings[i]) && strncmp(key, "__", 2))
            return true;
    }
    return false;
}

/* A classic loss gives broadcast_maximum an axis, which it does not have. */
static bool is_stray_axis(const draft *d, const char *key)
{
    return !strcmp(key, "axis") && !d->op->schema && !strncmp(d->op->name, "broadcast_", 10);
}

/* A number that is an operand here; what the form in files has besides, such as num_args, means nothing. */
static void read_number(draft *d, const char *key, const char *text)
{
    if (!strcmp(key, "scalar"))
        d->scalar = strtod(text, NULL);
    if (!strcmp(key, "is_int"))
        d->is_int = !strcmp(text, "True") || !strcmp(text, "1");
}

static mx_code read_attribute(const reading *r, draft *d, const char *key, const char *text)
{
    if (d->op && mx_op_expands(d->op) && !mx_schema_find(d->op->schema, key) && strncmp(key, "__", 2)) {
        read_number(d, key, text);
        return MX_OK;
    }
    if (is_old_argmax(r, d, key, text))
        return MX_OK;
    const bool field = d->op && mx_schema_find(d->op->schema, key);
    if (field && mx_apply_attribute(d->op, d->attrs, &d->given, d->name, key, text))
        return mx_error_code();
    if (field)
        return mx_apply_spelled(d->op, d->attrs, key, text) && !mx_dict_set(&d->notes, key, (void *)(uintptr_t)text)
                   ? mx_error_code()
                   : MX_OK;
    if (d->op && mx_op_is_custom(d->op) && strncmp(key, "__", 2))
        return mx_vec_push(&d->keys, key) && mx_vec_push(&d->options, text) ? MX_OK : MX_ERR_MEMORY;
    const char *stored = mx_notes_key(key);
    if (d->op && strncmp(stored, "__", 2) && !is_input_note(d, key) && !is_stray_axis(d, key))
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: %s has no attribute '%.80s'", d->name, d->op->name, key);
    return mx_dict_set(&d->notes, stored, (void *)(uintptr_t)text) ? MX_OK : mx_error_code();
}

static mx_code read_attributes(const reading *r, draft *d)
{
    static const char *const places[] = {"param", "attr", "attrs"};
    const size_t bytes = d->op && d->op->schema ? d->op->schema->size : 0;
    d->attrs = mx_alloc(bytes);
    if (!d->attrs)
        return MX_ERR_MEMORY;
    if (bytes)
        memcpy(d->attrs, d->op->defaults, bytes);
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        const mx_json *all = mx_json_get(d->json, places[p]);
        if (all && mx_json_kind_of(all) != MX_JSON_OBJECT)
            return mx_json_fail(all, "node %s: %s is not an object", d->name, places[p]), mx_error_code();
        for (int64_t i = 0; i < mx_json_count(all); i++) {
            const mx_json *member = mx_json_at(all, i);
            const char *text = mx_json_text(member);
            if (!text || read_attribute(r, d, mx_json_key(member), text))
                return mx_error_code();
        }
    }
    if (!d->op)
        return MX_OK;
    if (mx_schema_check(d->op->schema, d->attrs, d->name))
        return mx_error_code();
    return d->op->check ? d->op->check(d->attrs) : MX_OK;
}

/* ---- inputs ---------------------------------------------------------------------------------------------------- */

/* Files omit missing optional inputs: those that an attribute switches off are skipped. */
static mx_code read_inputs(const reading *r, draft *d)
{
    const mx_json *list = mx_json_member(d->json, "inputs", MX_JSON_ARRAY);
    if (!list)
        return mx_error_code();
    const int64_t n = mx_json_count(list);
    const bool open = d->op && d->op->flags & MX_OP_LIST;
    const int declared = d->op ? d->op->declared_inputs : 0;
    if (n > INT32_MAX || (!open && n > declared))
        return mx_json_fail(list, "node %s (%s): has %lld inputs, at most %d are possible", d->name, d->type,
                            (long long)n, declared),
               mx_error_code();
    d->room = open && n > declared ? (int)n : declared;
    d->entries = mx_alloc_zero((size_t)d->room * sizeof *d->entries);
    if (!d->entries)
        return MX_ERR_MEMORY;
    int at = 0;
    for (int64_t i = 0; i < n; i++, at++) {
        while (!open && declared - at > n - i && mx_input_switched_off(d->op, d->attrs, at))
            at++;
        if (read_entry(r, mx_json_at(list, i), d->name, &d->entries[at]))
            return mx_error_code();
    }
    d->n_in = at;
    return MX_OK;
}

/* Before 0.9 auxiliary states were not written; they get the names that they would have had. */
static mx_code add_missing(const reading *r, draft *d)
{
    char input[64];
    if (!d->op || d->op->flags & MX_OP_LIST || mx_op_expands(d->op))
        return MX_OK;
    const int needed = mx_op_needed_inputs(d->op, d->attrs);
    int present = 0;
    for (int i = 0; i < d->n_in; i++)
        present += d->entries[i].node != NULL;
    for (; present < needed && d->n_in < d->room; present++, d->n_in++) {
        mx_op_input_name(d->op, d->n_in, input);
        if (r->version >= 900 || !(d->op->mutates >> d->n_in & 1))
            return mx_json_fail(d->json, "node %s (%s): input %s is missing (only %d of %d are given)", d->name,
                                d->type, input, present, needed),
                   mx_error_code();
        mx_text text = {0};
        mx_text_print(&text, "%s_%s", d->name, input);
        mx_gnode *made = mx_text_get(&text) ? mx_gnode_variable(mx_text_get(&text), NULL, MX_DTYPE_NONE) : NULL;
        mx_text_free(&text);
        if (!made || !mx_vec_push(&d->extra, (void *)made))
            return mx_release(made), mx_error_code();
        d->entries[d->n_in].node = made;
    }
    return MX_OK;
}

/* ---- subgraphs and users' operators --------------------------------------------------------------------------- */

static mx_callee *read_subgraphs(const reading *r, const draft *d)
{
    mx_symbol *parts[3] = {NULL};
    const mx_json *list = mx_json_member(d->json, "subgraphs", MX_JSON_ARRAY);
    const int wanted = mx_control_parts(mx_control_kind_of(d->op));
    if (!list)
        return NULL;
    if (mx_json_count(list) != wanted) {
        mx_json_fail(list, "node %s (%s): has %lld subgraphs, wanted %d", d->name, d->type,
                     (long long)mx_json_count(list), wanted);
        return NULL;
    }
    int n = 0;
    while (n < wanted && (parts[n] = read_graph(mx_json_at(list, n), r->version)))
        n++;
    mx_control *control = n == wanted ? mx_control_new(d->op, d->attrs, d->name, d->n_in, n, parts) : NULL;
    for (int i = 0; i < n; i++)
        mx_release(parts[i]);
    return control ? &control->callee : NULL;
}

/* Stores the object in the last field of the attributes (op/control.h). */
static mx_code read_callee(const reading *r, draft *d)
{
    if (!d->op || !mx_op_calls(d->op))
        return MX_OK;
    const mx_field *last = &d->op->schema->fields[d->op->schema->count - 1];
    const bool control = mx_control_kind_of(d->op) != MX_CONTROL_KINDS;
    if (!control && !mx_op_is_custom(d->op))
        return mx_json_fail(d->json, "node %s: %s is not an operator for files", d->name, d->type), mx_error_code();
    d->callee = control
                    ? read_subgraphs(r, d)
                    : mx_custom_callee(mx_custom_type(d->attrs), (int)d->keys.length, d->keys.items, d->options.items);
    *(void **)((char *)d->attrs + last->offset) = d->callee;
    return d->callee ? MX_OK : mx_error_code();
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

/* Shape and type of a variable are in its notes. */
static mx_code read_variable(const draft *d, mx_gnode **made)
{
    mx_field shape_field = {"__shape__", MX_FIELD_DIMS, 0, NULL, "", ""};
    mx_schema schema = {"variable", &shape_field, 1, sizeof(mx_dims)};
    const char *shape_text = mx_dict_get(&d->notes, "__shape__"), *type_text = mx_dict_get(&d->notes, "__dtype__");
    mx_dims dims = {.n = -1};
    int type = MX_DTYPE_NONE, used = 0;
    if (shape_text && mx_schema_set(&schema, &dims, d->name, "__shape__", shape_text))
        return mx_error_code();
    if (type_text && (sscanf(type_text, "%d%n", &type, &used) != 1 || type_text[used] ||
                      (type != MX_DTYPE_NONE && !mx_dtype_valid(type))))
        return mx_fail(MX_ERR_DTYPE, "%s: __dtype__ is '%.40s', wanted the number of an element type", d->name,
                       type_text);
    if (dims.n > MX_MAX_NDIM)
        return mx_fail(MX_ERR_SHAPE, "%s: __shape__ has %d axes, at most %d are possible", d->name, dims.n,
                       MX_MAX_NDIM);
    mx_shape_t shape = mx_shape_of_dims(&dims);
    for (int i = 0; i < shape.ndim; i++)
        shape.dim[i] = shape.dim[i] > 0 ? shape.dim[i] : -1;
    *made = mx_gnode_variable(d->name, &shape, type);
    return *made ? MX_OK : mx_error_code();
}

static mx_code move_input_note(const draft *d, mx_gnode *node, const char *key, const char *text)
{
    char input[64];
    for (int i = 0; i < node->n_in; i++) {
        const size_t length = strlen(mx_op_input_name(d->op, i, input));
        mx_gnode *from = node->in[i].node;
        if (from && !from->op && !strncmp(key, input, length) && key[length] == '_')
            return mx_note_set(from, mx_notes_key(key + length + 1), text);
    }
    return MX_OK;
}

static mx_code write_notes(const draft *d, mx_gnode *node)
{
    for (int64_t i = 0; i < d->notes.length; i++) {
        const mx_dict_entry *e = &d->notes.entries[i];
        if (is_input_note(d, e->key) ? move_input_note(d, node, e->key, e->pointer)
                                     : mx_note_set(node, e->key, e->pointer))
            return mx_error_code();
    }
    return MX_OK;
}

/* A function of mx.np becomes the nodes of what it calls. */
static mx_code expand_node(const draft *d, mx_gnode **made)
{
    MX_SCOPE;
    mx_array *in[MX_MAX_DECLARED], *out[MX_MAX_OUTPUTS] = {NULL};
    int n = 0;
    if (d->n_in >= MX_MAX_DECLARED || mx_op_count_visible(d->op, d->attrs) != 1)
        return mx_fail(MX_ERR_UNSUPPORTED, "%s: %s cannot be read from files in this form", d->name, d->op->name);
    if (d->number == MX_NP_FIRST)
        in[n++] = d->is_int ? mx_number_int((int64_t)d->scalar) : mx_number_float(d->scalar);
    for (int i = 0; i < d->n_in; i++)
        in[n++] =
            d->entries[i].node ? mx_scope_add(mx_array_symbolic(d->entries[i].node, d->entries[i].output)) : MX_NONE;
    if (d->number == MX_NP_SECOND)
        in[n++] = d->is_int ? mx_number_int((int64_t)d->scalar) : mx_number_float(d->scalar);
    const bool tracing = mx_thread.modes.tracing;
    mx_thread.modes.tracing = true; /* without inputs it creates nodes only while tracing */
    const mx_code code = mx_invoke(d->op, d->attrs, n, in, MX_MAX_OUTPUTS, out);
    mx_thread.modes.tracing = tracing;
    if (code)
        return code;
    if (!mx_is_symbolic(out[0]) || mx_entry_of(out[0]).output)
        return mx_fail(MX_ERR_UNSUPPORTED, "%s: %s cannot be read from files in this form", d->name, d->op->name);
    *made = mx_retain(mx_entry_of(out[0]).node);
    return MX_OK;
}

static mx_code make_node(const reading *r, draft *d, mx_gnode **made)
{
    mx_code code = read_attributes(r, d);
    code = code ? code : read_inputs(r, d);
    code = code ? code : add_missing(r, d);
    code = code ? code : read_callee(r, d);
    if (code)
        return code;
    if (d->op && mx_op_expands(d->op))
        return expand_node(d, made);
    struct mx_gnode_args args = {d->op, d->op && d->op->schema ? d->attrs : NULL, &d->given, d->name, d->n_in,
                                 d->entries};
    if (!d->op)
        code = read_variable(d, made);
    else
        code = (*made = mx_gnode_make(&args)) ? MX_OK : mx_error_code();
    return code ? code : write_notes(d, *made);
}

static void free_draft(draft *d)
{
    mx_free(d->attrs, d->op && d->op->schema ? d->op->schema->size : 0);
    mx_free(d->entries, (size_t)d->room * sizeof *d->entries);
    mx_dict_free(&d->notes);
    mx_release(d->callee);
    mx_vec_free(&d->keys);
    mx_vec_free(&d->options);
    for (int64_t i = 0; i < d->extra.length; i++)
        mx_release(d->extra.items[i]);
    mx_vec_free(&d->extra);
}

static mx_code read_node(reading *r, const mx_json *json)
{
    draft d = {.json = json};
    d.type = mx_json_text(mx_json_member(json, "op", MX_JSON_TEXT));
    d.name = mx_json_text(mx_json_member(json, "name", MX_JSON_TEXT));
    if (!d.type || !d.name)
        return mx_error_code();
    const bool clean = !mx_has_error();
    mx_gnode *made = NULL;
    mx_code code = MX_OK;
    d.is_int = true;
    d.op = mx_np_of_file(d.type, &d.number);
    if (!d.op && strcmp(d.type, "null") && !(d.op = mx_op_find(d.type)))
        code = mx_error_code();
    else
        code = make_node(r, &d, &made);
    if (code && clean) {
        char where[192];
        snprintf(where, sizeof where, "node %lld '%.100s'", (long long)r->count, d.name);
        mx_error_mention(where);
    }
    if (code)
        mx_release(made);
    else
        r->made[r->count++] = made;
    free_draft(&d);
    return code;
}

/* ---- the document ---------------------------------------------------------------------------------------------- */

static int64_t read_version(const mx_json *root)
{
    const mx_json *pair = mx_json_get(mx_json_get(root, "attrs"), "mxnet_version");
    double version = 0;
    if (mx_json_count(pair) == 2 && mx_json_kind_of(mx_json_at(pair, 1)) == MX_JSON_NUMBER)
        mx_json_number(mx_json_at(pair, 1), &version);
    return version > 0 && version < 1e9 ? (int64_t)version : 800;
}

static mx_symbol *read_results(const reading *r, const mx_json *root)
{
    const mx_json *list = mx_json_member(root, "heads", MX_JSON_ARRAY);
    const int64_t n = mx_json_count(list);
    if (!list)
        return NULL;
    if (!n) {
        mx_json_fail(list, "heads is empty: the symbol has no outputs");
        return NULL;
    }
    mx_gentry *results = mx_alloc_zero((size_t)n * sizeof *results);
    if (!results)
        return NULL;
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < n; i++)
        code = read_entry(r, mx_json_at(list, i), "heads", &results[i]);
    mx_symbol *symbol = code ? NULL : mx_symbol_new(n, results);
    mx_free(results, (size_t)n * sizeof *results);
    return symbol;
}

static mx_symbol *read_graph(const mx_json *root, int64_t version)
{
    reading r = {.version = version};
    r.nodes = mx_json_member(root, "nodes", MX_JSON_ARRAY);
    const int64_t n = mx_json_count(r.nodes);
    if (n > mx_limits_get().nodes)
        return mx_json_fail(r.nodes, "the graph has %lld nodes, at most %lld are read (GLUON_LIMIT_NODES)",
                            (long long)n, (long long)mx_limits_get().nodes),
               NULL;
    if (!r.nodes || !(r.made = mx_alloc_zero((size_t)n * sizeof *r.made)))
        return NULL;
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < n; i++)
        code = read_node(&r, mx_json_at(r.nodes, i));
    mx_symbol *symbol = code ? NULL : read_results(&r, root);
    for (int64_t i = r.count - 1; i >= 0; i--)
        mx_release(r.made[i]);
    mx_free(r.made, (size_t)n * sizeof *r.made);
    return symbol;
}

mx_symbol *mx_symbol_from_json(const char *text, size_t length)
{
    if (!text)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_symbol_from_json: text is NULL");
    mx_json *root = mx_json_parse(text, length);
    if (!root)
        return NULL;
    mx_symbol *symbol = read_graph(root, read_version(root));
    mx_json_free(root);
    return mx_scope_add(symbol);
}

mx_symbol *mx_symbol_load(const char *path)
{
    int64_t size = 0;
    if (!path)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_symbol_load: path is NULL");
    const bool clean = !mx_has_error();
    char *text = mx_file_read(path, LARGEST_FILE, &size);
    if (!text)
        return NULL;
    mx_symbol *symbol = mx_symbol_from_json(text, (size_t)size);
    mx_free(text, (size_t)size + 1);
    if (!symbol && clean)
        mx_error_mention(path);
    return symbol;
}
