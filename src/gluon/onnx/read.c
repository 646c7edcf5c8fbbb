/* Reading ONNX files: the parts of the file, its inputs, its nodes in order.
 *
 * Nodes are parsed when they run, and values are dropped after their last use, so a file with many nodes needs no memory but
 * that of its graph.  A node's inputs must be
 * inputs, initializers or results of nodes before it: a cycle is an error like any other missing value.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/onnx/read.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "exec/list.h"
#include "gluon/block/core.h"
#include "gluon/limits.h"
#include "graph/known.h"
#include "graph/symbol.h"
#include "ndarray/array.h"

/* ---- values ---------------------------------------------------------------------------------------------------- */

mx_onnx_value *mx_onnx_find(mx_onnx_reader *r, const char *name)
{
    mx_onnx_value *found = NULL;
    for (mx_onnx_frame *frame = r->frame; frame && !found; frame = frame->outer)
        found = mx_dict_get(&frame->values, name);
    return found;
}

static mx_onnx_value spent; /* stands for every value that was dropped */

static bool is_defined(const mx_onnx_value *v) { return v == &spent || v->x || v->tensor.bytes || v->items.v; }

static mx_onnx_value *place(mx_onnx_reader *r, const char *name)
{
    mx_dict_entry *entry = mx_dict_place(&r->frame->values, name);
    if (entry && !entry->pointer)
        entry->pointer = mx_alloc_zero(sizeof(mx_onnx_value));
    return entry ? entry->pointer : NULL;
}

mx_code mx_onnx_define(mx_onnx_reader *r, const char *name, mx_array *x, int type)
{
    if (!x || x == MX_NONE)
        return mx_has_error() ? mx_error_code() : mx_fail(MX_ERR_FILE, "%s: the value '%s' is missing", r->path, name);
    mx_onnx_value *v = place(r, name);
    if (!v)
        return mx_error_code();
    if (is_defined(v))
        return mx_fail(MX_ERR_FILE, "%s: the value '%s' is defined twice", r->path, name);
    v->x = mx_retain(x);
    v->type = type;
    return MX_OK;
}

mx_code mx_onnx_define_sequence(mx_onnx_reader *r, const char *name, mx_arrays items)
{
    mx_onnx_value *v = place(r, name);
    if (!v || is_defined(v))
        return v ? mx_fail(MX_ERR_FILE, "%s: the value '%s' is defined twice", r->path, name) : mx_error_code();
    mx_array **list = mx_alloc_zero((size_t)(items.n + 1) * sizeof *list);
    for (int64_t i = 0; list && i < items.n; i++)
        list[i] = mx_retain(items.v[i]);
    v->items = (mx_arrays){list, items.n};
    return list ? MX_OK : mx_error_code();
}

static void free_value(mx_onnx_value *v)
{
    if (!v || v == &spent)
        return;
    mx_release(v->x);
    mx_release(v->variable);
    for (int64_t k = 0; v->items.v && k < v->items.n; k++)
        mx_release(v->items.v[k]);
    mx_free((void *)(uintptr_t)v->items.v, v->items.v ? (size_t)(v->items.n + 1) * sizeof *v->items.v : 0);
    mx_free(v, sizeof *v);
}

void mx_onnx_drop(mx_onnx_reader *r, const char *name)
{
    mx_dict_entry *entry = mx_dict_find(&r->frame->values, name);
    if (!entry)
        return;
    free_value(entry->pointer);
    entry->pointer = &spent;
}

void mx_onnx_free_frame(mx_onnx_frame *frame)
{
    for (int64_t i = 0; i < frame->values.length; i++)
        free_value(frame->values.entries[i].pointer);
    mx_dict_free(&frame->values);
}

/* ---- inputs and outputs ------------------------------------------------------------------------------------------ */

static mx_code take_shape(mx_onnx_reader *r, mx_onnx_input_info *info, const mx_proto_field *field)
{
    mx_proto shape = mx_proto_inside(field);
    info->shape.ndim = 0;
    for (mx_proto_field f; mx_proto_next(&shape, &f);) {
        if (f.number != 1)
            continue;
        if (info->shape.ndim == MX_MAX_NDIM)
            return mx_fail(MX_ERR_UNSUPPORTED, "%s: the input '%s' has more than %d axes", r->path, info->name,
                           MX_MAX_NDIM);
        int64_t *size = &info->shape.dim[info->shape.ndim++];
        *size = -1; /* a name, or nothing: not known */
        mx_proto dim = mx_proto_inside(&f);
        for (mx_proto_field d; mx_proto_next(&dim, &d);)
            if (d.number == 1 && d.kind == MX_PROTO_VARINT && (*size = (int64_t)d.value) < -1)
                return mx_fail(MX_ERR_FILE, "%s: the input '%s' has a negative size", r->path, info->name);
    }
    return MX_OK;
}

static mx_code take_type(mx_onnx_reader *r, mx_onnx_input_info *info, const mx_proto_field *field)
{
    mx_proto type = mx_proto_inside(field);
    for (mx_proto_field f; mx_proto_next(&type, &f);) {
        mx_proto tensor = mx_proto_inside(&f);
        for (mx_proto_field t; f.number == 1 && mx_proto_next(&tensor, &t);) {
            if (t.number == 1)
                info->type = (int)t.value;
            else if (t.number == 2 && take_shape(r, info, &t))
                return mx_error_code();
        }
    }
    return MX_OK;
}

static mx_code take_info(mx_onnx_reader *r, const mx_proto_field *field, mx_onnx_input_info *info)
{
    mx_proto m = mx_proto_inside(field);
    mx_code code = MX_OK;
    *info = (mx_onnx_input_info){.shape = MX_UNKNOWN_SHAPE};
    for (mx_proto_field f; mx_proto_next(&m, &f);)
        if (f.number == 1 && f.kind == MX_PROTO_BYTES && !info->name) {
            const char *name = mx_onnx_field_text(&f);
            info->name = name ? mx_strdup(name) : NULL;
        }
    m = mx_proto_inside(field);
    for (mx_proto_field f; !code && mx_proto_next(&m, &f);)
        if (f.number == 2)
            code = take_type(r, info, &f);
    return info->name ? code : mx_fail(MX_ERR_FILE, "%s: an input or output has no name", r->path);
}

static mx_code take_initializer(mx_onnx_reader *r, const mx_proto_field *field)
{
    const char *name = NULL;
    mx_proto m = mx_proto_inside(field);
    for (mx_proto_field f; mx_proto_next(&m, &f);)
        if (f.number == 8 && f.kind == MX_PROTO_BYTES && !(name = mx_onnx_field_text(&f)))
            return mx_error_code();
    if (!name || m.broken)
        return mx_fail(MX_ERR_FILE, "%s: an initializer is broken or has no name", r->path);
    mx_onnx_value *v = place(r, name);
    if (v && v->tensor.bytes)
        return mx_fail(MX_ERR_FILE, "%s: there are two initializers '%s'", r->path, name);
    if (v)
        v->tensor = (mx_onnx_part){field->bytes, field->size};
    return v ? MX_OK : mx_error_code();
}

static mx_code take_initializers(mx_onnx_reader *r, mx_onnx_part graph)
{
    mx_proto m = mx_proto_of(graph.bytes, graph.size);
    for (mx_proto_field f; mx_proto_next(&m, &f);) {
        MX_SCOPE;
        if (f.number == 5 && f.kind == MX_PROTO_BYTES && take_initializer(r, &f))
            return mx_error_code();
        if (f.number == 15)
            return mx_fail(MX_ERR_UNSUPPORTED, "%s: sparse initializers are not supported", r->path);
    }
    return m.broken ? mx_fail(MX_ERR_FILE, "%s: the graph is broken", r->path) : MX_OK;
}

/* Inputs that are initializers are constants, as in old files. */
static mx_code take_infos(mx_onnx_reader *r)
{
    mx_proto m = mx_proto_of(r->graph.bytes, r->graph.size);
    for (mx_proto_field f; mx_proto_next(&m, &f);) {
        MX_SCOPE;
        mx_onnx_input_info info = {0};
        if ((f.number != 11 && f.number != 12) || f.kind != MX_PROTO_BYTES)
            continue;
        mx_code code = take_info(r, &f, &info);
        const bool wanted = !code && (f.number == 12 || !mx_onnx_find(r, info.name));
        const bool kept = wanted && (f.number == 11 ? mx_vec_push(&r->inputs, info) : mx_vec_push(&r->outputs, info));
        if (!kept)
            mx_strfree(info.name);
        if (code || (wanted && !kept))
            return mx_error_code();
    }
    return MX_OK;
}

static mx_code define_input(mx_onnx_reader *r, const mx_onnx_input_info *info)
{
    const mx_onnx_type *type = mx_onnx_type_of(info->type);
    if (!type || type->held == MX_DTYPE_NONE)
        return mx_fail(MX_ERR_UNSUPPORTED, "%s: the input '%s' is %s%s; there are no such arrays", r->path, info->name,
                       type ? "of type " : "not a tensor", type ? type->name : "");
    if (mx_dict_count(&r->variables, info->name) < 0)
        return mx_error_code();
    mx_gnode *node = mx_gnode_variable(info->name, &info->shape, type->held);
    mx_array *x = node ? mx_array_symbolic(node, 0) : NULL;
    mx_code code = x ? mx_onnx_define(r, info->name, x, type->dtype == type->held ? 0 : type->code) : mx_error_code();
    mx_release(x);
    mx_release(node);
    if (code) {
        char who[600];
        snprintf(who, sizeof who, "%.300s: the input '%.200s'", r->path, info->name);
        mx_error_mention(who);
    }
    return code;
}

/* Shapes that the caller gave replace sizes that the file leaves open. */
static mx_code use_known(mx_onnx_reader *r, const struct mx_known *known)
{
    for (int k = 0; known && k < known->count; k++) {
        int64_t i = known->names ? 0 : k;
        while (known->names && i < r->inputs.length && strcmp(r->inputs.items[i].name, known->names[k]))
            i++;
        if (i >= r->inputs.length)
            return mx_fail(MX_ERR_ARGUMENT, "%s: there is no input %s", r->path,
                           known->names ? known->names[k] : "for a shape");
        if (!known->shapes)
            continue;
        mx_shape_t given = mx_shape_of_dims(&known->shapes[k]), *shape = &r->inputs.items[i].shape;
        for (int a = 0; a < given.ndim; a++)
            given.dim[a] = given.dim[a] > 0 ? given.dim[a] : -1;
        char one[MX_SHAPE_TEXT], two[MX_SHAPE_TEXT];
        if (given.ndim >= 0 && !mx_shape_merge(shape, &given, NULL))
            return mx_fail(MX_ERR_SHAPE, "%s: the input '%s' has the shape %s, given was %s", r->path,
                           r->inputs.items[i].name, mx_shape_text(shape, one), mx_shape_text(&given, two));
    }
    return MX_OK;
}

/* ---- graphs ---------------------------------------------------------------------------------------------------- */

mx_code mx_onnx_run_nodes(mx_onnx_reader *r, mx_onnx_part graph, uint32_t field)
{
    mx_proto m = mx_proto_of(graph.bytes, graph.size);
    const int64_t most = mx_limits_get().nodes;
    mx_code code = MX_OK;
    for (mx_proto_field f; !code && mx_proto_next(&m, &f);)
        if (f.number == field && f.kind == MX_PROTO_BYTES)
            code = r->nodes++ < most
                       ? mx_onnx_run_node(r, (mx_onnx_part){f.bytes, f.size})
                       : mx_fail(MX_ERR_FILE, "%s: more than %lld nodes (GLUON_LIMIT_NODES)", r->path, (long long)most);
    return code ? code : m.broken ? mx_fail(MX_ERR_FILE, "%s: the list of nodes is broken", r->path) : MX_OK;
}

/* The array of a result; constants become part of the graph. */
static mx_array *result_of(mx_onnx_reader *r, const char *name)
{
    mx_onnx_value *v = mx_onnx_find(r, name);
    if (!v)
        return mx_fail_null(MX_ERR_FILE, "%s: the output '%s' is not the result of a node", r->path, name);
    if (v->items.v)
        return mx_fail_null(MX_ERR_UNSUPPORTED, "%s: the output '%s' is a sequence", r->path, name);
    if (!v->x)
        v->x = mx_keep(mx_onnx_read_tensor(r, v->tensor, name, &v->type));
    return v->x;
}

static mx_code bind_inputs(mx_onnx_reader *r, mx_onnx_part graph, mx_arrays in)
{
    mx_proto m = mx_proto_of(graph.bytes, graph.size);
    mx_code code = MX_OK;
    int64_t k = 0;
    for (mx_proto_field f; !code && mx_proto_next(&m, &f);)
        if (f.number == 11 && k < in.n) {
            MX_SCOPE;
            mx_onnx_input_info info;
            code = take_info(r, &f, &info);
            code = code ? code : mx_onnx_define(r, info.name, in.v[k++], 0);
            mx_strfree(info.name);
        }
    return code        ? code
           : k == in.n ? MX_OK
                       : mx_fail(MX_ERR_FILE, "%s: a graph inside a node has %lld inputs, wanted %lld", r->path,
                                 (long long)k, (long long)in.n);
}

static mx_code fetch_results(mx_onnx_reader *r, mx_onnx_part graph, int n_out, mx_array **out)
{
    mx_proto m = mx_proto_of(graph.bytes, graph.size);
    mx_code code = MX_OK;
    int k = 0;
    for (mx_proto_field f; !code && mx_proto_next(&m, &f);)
        if (f.number == 12 && k < n_out) {
            mx_onnx_input_info info;
            code = take_info(r, &f, &info);
            mx_array *x = code ? NULL : result_of(r, info.name);
            out[k++] = x ? mx_scope_add(mx_retain(x)) : NULL;
            mx_strfree(info.name);
            code = x ? MX_OK : mx_error_code();
        }
    return code         ? code
           : k == n_out ? MX_OK
                        : mx_fail(MX_ERR_FILE, "%s: a graph inside a node has too few outputs", r->path);
}

mx_code mx_onnx_run_graph(mx_onnx_reader *r, mx_onnx_part graph, mx_arrays in, int n_out, mx_array **out)
{
    mx_onnx_frame frame = {.outer = r->frame};
    r->frame = &frame;
    r->depth++;
    mx_code code = take_initializers(r, graph);
    code = code ? code : bind_inputs(r, graph, in);
    code = code ? code : mx_onnx_run_nodes(r, graph, 1);
    code = code ? code : fetch_results(r, graph, n_out, out);
    r->depth--;
    r->frame = frame.outer;
    mx_onnx_free_frame(&frame);
    return code;
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

static mx_code take_opset(mx_onnx_reader *r, const mx_proto_field *field)
{
    const char *domain = "";
    int64_t version = 0;
    mx_proto m = mx_proto_inside(field);
    for (mx_proto_field f; mx_proto_next(&m, &f);)
        if (f.number == 1 && f.kind == MX_PROTO_BYTES)
            domain = mx_onnx_field_text(&f);
        else if (f.number == 2)
            version = (int64_t)f.value;
    if (domain && !strcmp(domain, "ai.onnx.ml") && !r->opset)
        r->opset = MX_ONNX_USUAL; /* a file may have only such operators */
    if (!domain || (*domain && strcmp(domain, "ai.onnx")))
        return domain ? MX_OK : mx_error_code();
    if (version < 1 || version > MX_ONNX_NEWEST)
        return mx_fail(MX_ERR_UNSUPPORTED, "%s: opset %lld; those from %d to %d are supported", r->path,
                       (long long)version, MX_ONNX_OLDEST, MX_ONNX_NEWEST);
    r->opset = (int)version;
    return MX_OK;
}

static mx_code take_parts(mx_onnx_reader *r)
{
    mx_proto m = mx_proto_of(r->bytes, r->size);
    mx_code code = MX_OK;
    for (mx_proto_field f; !code && mx_proto_next(&m, &f);) {
        if (f.number == 7 && f.kind == MX_PROTO_BYTES)
            r->graph = (mx_onnx_part){f.bytes, f.size};
        else if (f.number == 8)
            code = take_opset(r, &f);
        else if (f.number == 25 && f.kind == MX_PROTO_BYTES)
            code = mx_vec_push(&r->functions, ((mx_onnx_part){f.bytes, f.size})) ? MX_OK : mx_error_code();
    }
    if (!code && (m.broken || !r->graph.bytes))
        return mx_fail(MX_ERR_FILE, "%s: %s", r->path,
                       m.broken ? "not an ONNX file, or a broken one" : "not an ONNX file: there is no graph");
    return code       ? code
           : r->opset ? MX_OK
                      : mx_fail(MX_ERR_FILE, "%s: the file does not say which opset it uses", r->path);
}

/* Owned by the caller; NULL with an error. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return mx_strdup(".");
    const size_t length = slash == path ? 1 : (size_t)(slash - path);
    char *folder = mx_alloc(length + 1);
    if (folder)
        memcpy(folder, path, length), folder[length] = 0;
    return folder;
}

mx_code mx_onnx_open(mx_onnx_reader *r, const char *path)
{
    *r = (mx_onnx_reader){.path = path, .folder = folder_of(path)};
    if (!r->folder)
        return mx_error_code();
    if (!(r->bytes = mx_file_read(path, INT64_C(1) << 40, &r->size)))
        return mx_error_code();
    return take_parts(r);
}

static void free_infos(mx_onnx_input_info *infos, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        mx_strfree(infos[i].name);
}

void mx_onnx_close(mx_onnx_reader *r)
{
    for (int64_t i = 0; i < r->results.length; i++)
        mx_release(r->results.items[i]);
    free_infos(r->inputs.items, r->inputs.length);
    free_infos(r->outputs.items, r->outputs.length);
    mx_vec_free(&r->inputs);
    mx_vec_free(&r->outputs);
    mx_vec_free(&r->results);
    mx_vec_free(&r->functions);
    mx_dict_free(&r->rows);
    mx_dict_free(&r->sizes);
    for (int64_t i = 0; i < r->size_of.length; i++)
        mx_release(r->size_of.items[i].x);
    mx_vec_free(&r->size_of);
    mx_dict_free(&r->variables);
    mx_onnx_close_files(r);
    mx_free(r->bytes, r->bytes ? (size_t)r->size + 1 : 0);
    mx_strfree(r->folder);
}

/* ---- the model ------------------------------------------------------------------------------------------------- */

static void *scoped(int64_t n, size_t size) { return mx_list_new((int64_t)((size_t)n * size / sizeof(void *) + 1)); }

static mx_code describe(const mx_onnx_input_info *infos, int64_t n, mx_names *names, const mx_dims **shapes,
                        const mx_dtype **types)
{
    const char **texts = scoped(n, sizeof *texts);
    mx_dims *dims = scoped(n, sizeof *dims);
    mx_dtype *dtypes = scoped(n, sizeof *dtypes);
    if (!texts || !dims || !dtypes)
        return mx_error_code();
    for (int64_t i = 0; i < n; i++) {
        const mx_onnx_type *type = mx_onnx_type_of(infos[i].type);
        texts[i] = infos[i].name;
        dtypes[i] = type ? type->held : MX_DTYPE_NONE;
        dims[i] = (mx_dims){.n = infos[i].shape.ndim};
        for (int k = 0; k < infos[i].shape.ndim; k++)
            dims[i].d[k] = infos[i].shape.dim[k] < 0 ? 0 : infos[i].shape.dim[k];
    }
    *names = mx_names_of(n, texts);
    *shapes = dims;
    *types = dtypes;
    return names->n < 0 ? mx_error_code() : MX_OK;
}

static mx_code run_model(mx_onnx_reader *r, const struct mx_known *known)
{
    mx_code code = mx_onnx_index(&r->rows, false);
    code = code ? code : use_known(r, known);
    for (int64_t i = 0; !code && i < r->inputs.length; i++)
        code = define_input(r, &r->inputs.items[i]);
    code = code ? code : mx_onnx_count_uses(&r->uses, r->graph);
    code = code ? code : mx_onnx_run_nodes(r, r->graph, 1);
    for (int64_t i = 0; !code && i < r->outputs.length; i++) {
        mx_array *x = result_of(r, r->outputs.items[i].name);
        code = x && mx_vec_push(&r->results, mx_retain(x)) ? MX_OK : mx_error_code();
    }
    return code;
}

/* Numbers that the functions of rows added are not trained. */
static mx_code note_constants(const mx_onnx_reader *r, const mx_symbol *symbol)
{
    mx_graph graph = {0};
    mx_code code = mx_graph_of(&graph, symbol->n, symbol->outputs);
    for (int64_t i = 0; !code && i < graph.n; i++) {
        mx_gnode *node = graph.nodes[i];
        if (node->value && !mx_dict_find(&r->variables, node->name))
            code = mx_note_set(node, "__grad_req__", "null");
    }
    mx_graph_free(&graph);
    return code;
}

static mx_onnx_model *model_of(mx_onnx_reader *r, bool nodes)
{
    mx_onnx_model *model = scoped(1, sizeof *model);
    if (!model ||
        describe(r->inputs.items, r->inputs.length, &model->inputs, &model->input_shapes, &model->input_types) ||
        describe(r->outputs.items, r->outputs.length, &model->outputs, &model->output_shapes, &model->output_types))
        return NULL;
    model->opset = r->opset;
    if (nodes && !r->results.length)
        return mx_fail_null(MX_ERR_FILE, "%s: the graph has no outputs", r->path);
    if (nodes && (!(model->symbol = mx_symbol_of((mx_arrays){r->results.items, r->results.length})) ||
                  note_constants(r, model->symbol)))
        return NULL;
    return model;
}

static const mx_onnx_model *load(const char *path, const struct mx_known *known, bool nodes)
{
    mx_onnx_reader r;
    mx_onnx_frame frame = {0};
    if (!path)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_load_onnx: path is NULL");
    if (mx_known_check(known, "mx_load_onnx"))
        return NULL;
    mx_code code = mx_onnx_open(&r, path);
    r.frame = &frame;
    code = code ? code : take_initializers(&r, r.graph);
    code = code ? code : take_infos(&r);
    if (!code && nodes && !mx_symbol_names_enter("")) {
        code = run_model(&r, known);
        mx_symbol_names_leave();
    }
    mx_onnx_free_frame(&frame); /* the results hold what they need */
    mx_onnx_free_uses(&r.uses);
    mx_onnx_model *model = code ? NULL : model_of(&r, nodes);
    mx_onnx_close(&r);
    return model;
}

const mx_onnx_model *mx_load_onnx(const char *path, const struct mx_known *inputs) { return load(path, inputs, true); }

const mx_onnx_model *mx_describe_onnx(const char *path) { return load(path, NULL, false); }

mx_block *mx_import_onnx(const char *path)
{
    mx_scope scope = mx_scope_open();
    const mx_onnx_model *model = mx_load_onnx(path, NULL);
    mx_text names = {0};
    for (int64_t i = 0; model && i < model->inputs.n; i++)
        mx_text_print(&names, "%s ", model->inputs.v[i]);
    mx_block *block =
        model && mx_text_get(&names) ? mx_symbol_block_with(model->symbol, mx_text_get(&names), NULL, true) : NULL;
    mx_text_free(&names);
    return mx_scope_return(&scope, block);
}

mx_names mx_onnx_operators(bool written)
{
    mx_dict table = {0};
    const char **names = NULL;
    if (!mx_onnx_index(&table, written) && (names = scoped(table.length, sizeof *names)))
        for (int64_t i = 0; i < table.length; i++)
            names[i] = table.entries[i].key;
    const mx_names list = names ? mx_names_of(table.length, names) : mx_names_failed();
    mx_dict_free(&table);
    return list;
}
