/* Making predictors: from a symbol's text and the bytes of a parameter file, or from another predictor.
 *
 * Every variable of the symbol needs a value: it is an input that the caller names, a parameter of the file, or the label
 * of a loss (an input called label of every node that uses it), which predictions do not read: labels are zeros.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "gluon/block/core.h"
#include "gluon/predict/predict.h"

/* What the four MXPredCreate functions share. */
typedef struct request {
    const char *who, *json;
    const void *bytes;
    int size;
    mx_context context;
    mx_predict_inputs inputs;
    uint32_t n_types; /* element types of variables */
    const char *const *type_names;
    const int *types;
    uint32_t n_outputs; /* 0: the symbol's own */
    const char *const *output_names;
} request;

static void destroy(mx_object *self)
{
    mx_predictor *p = (mx_predictor *)self;
    const size_t n = (size_t)p->n_out;
    if (p->steps)
        mx_interpret_end(p->steps, NULL);
    for (int64_t i = 0; i < p->inputs.length; i++)
        mx_release(p->inputs.entries[i].pointer);
    mx_dict_free(&p->inputs);
    for (size_t i = 0; p->outputs && i < n; i++)
        mx_release(p->outputs[i]);
    mx_free(p->shapes, n * sizeof *p->shapes);
    mx_free(p->types, n * sizeof *p->types);
    mx_free(p->outputs, n * sizeof *p->outputs);
    mx_free(p->shown, n * sizeof *p->shown);
    mx_free(p->values, (size_t)p->graph.n * sizeof *p->values);
    mx_graph_free(&p->graph);
    mx_release(p->net);
    mx_release(p->symbol);
    mx_free(p, sizeof *p);
}
const mx_kind mx_predictor_kind = {"predictor", destroy};

/* ---- arguments ------------------------------------------------------------------------------------------------- */

mx_code mx_predict_check_inputs(const mx_predict_inputs *in, const char *who)
{
    if (!in->n)
        return mx_fail(MX_ERR_ARGUMENT, "%s: no input is named; the shapes of the inputs are needed", who);
    if (!in->names || !in->first || !in->dims)
        return mx_fail(MX_ERR_ARGUMENT, "%s: %s is NULL", who,
                       !in->names   ? "input_keys"
                       : !in->first ? "input_shape_indptr"
                                    : "input_shape_data");
    for (uint32_t i = 0; i < in->n; i++) {
        if (!in->names[i])
            return mx_fail(MX_ERR_ARGUMENT, "%s: input_keys[%u] is NULL", who, i);
        if (in->first[i + 1] < in->first[i] || in->first[i + 1] - in->first[i] > MX_MAX_NDIM)
            return mx_fail(MX_ERR_ARGUMENT,
                           "%s: input_shape_indptr has %u and then %u for input '%s', wanted 0 to %d axes", who,
                           in->first[i], in->first[i + 1], in->names[i], MX_MAX_NDIM);
    }
    return MX_OK;
}

static mx_dims shape_of(const mx_predict_inputs *in, uint32_t i)
{
    mx_dims dims = {.n = (int32_t)(in->first[i + 1] - in->first[i])};
    for (int k = 0; k < dims.n; k++)
        dims.d[k] = in->dims[in->first[i] + (uint32_t)k];
    return dims;
}

static mx_code check(const request *r, PredictorHandle *out)
{
    if (!r->json || !r->bytes || !out)
        return mx_fail(MX_ERR_ARGUMENT, "%s: %s is NULL", r->who,
                       !r->json    ? "symbol_json_str"
                       : !r->bytes ? "param_bytes"
                                   : "out");
    if (r->size <= 0)
        return mx_fail(MX_ERR_ARGUMENT, "%s: param_size is %d, wanted the size of a .params file in bytes", r->who,
                       r->size);
    if (r->context.type != MX_CPU && r->context.type != MX_GPU && r->context.type != MX_CPU_PINNED)
        return mx_fail(MX_ERR_DEVICE, "%s: dev_type is %d, wanted 1 (CPU) or 2 (GPU)", r->who, r->context.type);
    if ((r->n_types && (!r->type_names || !r->types)) || (r->n_outputs && !r->output_names))
        return mx_fail(MX_ERR_ARGUMENT, "%s: a list of names or types is NULL", r->who);
    return mx_predict_check_inputs(&r->inputs, r->who);
}

/* ---- the symbol and its variables ------------------------------------------------------------------------------- */

static mx_symbol *pick_output(mx_symbol *all, const request *r, const char *name)
{
    if (!name)
        return mx_fail_null(MX_ERR_ARGUMENT, "%s: an output name is NULL", r->who);
    mx_text with_suffix = {0};
    mx_text_print(&with_suffix, "%s_output", name);
    const char *longer = mx_text_to_scope(&with_suffix);
    const mx_names names = mx_symbol_outputs(all);
    for (int64_t i = 0; longer && i < names.n; i++)
        if (!strcmp(names.v[i], longer) || !strcmp(names.v[i], name))
            return mx_symbol_output(all, i);
    return mx_fail_null(MX_ERR_ARGUMENT, "%s: the symbol has no node named '%s'", r->who, name);
}

static mx_symbol *read_symbol(const request *r)
{
    mx_symbol *symbol = mx_symbol_from_json(r->json, strlen(r->json));
    mx_symbol *all = symbol && r->n_outputs ? mx_symbol_internals(symbol) : NULL;
    if (!symbol || !r->n_outputs)
        return symbol;
    const size_t bytes = r->n_outputs * sizeof(mx_symbol *);
    mx_symbol **picked = all ? mx_alloc(bytes) : NULL;
    bool fine = picked != NULL;
    for (uint32_t i = 0; fine && i < r->n_outputs; i++)
        fine = (picked[i] = pick_output(all, r, r->output_names[i])) != NULL;
    symbol = fine ? mx_symbol_group(picked, (int)r->n_outputs) : NULL;
    mx_free(picked, bytes);
    return symbol;
}

static mx_array *value_in_file(const mx_array_dict *file, const char *name)
{
    static const char *const tags[] = {"arg:", "aux:", ""};
    for (int i = 0; i < 3; i++) {
        mx_text text = {0};
        mx_text_print(&text, "%s%s", tags[i], name);
        const char *key = mx_text_to_scope(&text);
        mx_array *value = key ? mx_array_dict_get(file, key) : NULL;
        if (value)
            return value;
    }
    return NULL;
}

/* Every use of the variable is an input that the operator calls a label. */
static bool is_label(const mx_graph *g, int64_t variable)
{
    bool used = false;
    for (int64_t i = 0; i < g->n; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++) {
            char buffer[64];
            if (g->nodes[i]->in[k].node != g->nodes[variable])
                continue;
            used = true;
            if (strcmp(mx_op_input_name(g->nodes[i]->op, k, buffer), "label"))
                return false;
        }
    return used;
}

static mx_code check_names(const request *r, const mx_symbol *symbol)
{
    const mx_names names = mx_symbol_inputs(symbol);
    for (uint32_t i = 0; i < r->inputs.n; i++) {
        bool found = false;
        for (int64_t k = 0; k < names.n; k++)
            found |= !strcmp(names.v[k], r->inputs.names[i]);
        if (!found)
            return mx_fail(MX_ERR_ARGUMENT, "%s: the symbol has no input named '%s'; its first one is '%s'", r->who,
                           r->inputs.names[i], names.n > 0 ? names.v[0] : "none");
    }
    return MX_OK;
}

/* Appends the labels to the inputs, without arrays yet; other variables must have a value. */
static mx_code find_labels(const request *r, const mx_array_dict *file, mx_predictor *p)
{
    mx_graph g = {0};
    mx_code code = mx_graph_of(&g, p->symbol->n, p->symbol->outputs);
    for (int64_t i = 0; !code && i < g.n; i++) {
        const mx_gnode *node = g.nodes[i];
        if (node->op || node->value || mx_dict_find(&p->inputs, node->name) || value_in_file(file, node->name))
            continue;
        if (!is_label(&g, i))
            code = mx_fail(MX_ERR_PARAMETER, "%s: '%s' has no value: it is neither an input nor in the parameters",
                           r->who, node->name);
        else if (!mx_dict_set(&p->inputs, node->name, NULL))
            code = mx_error_code();
    }
    mx_graph_free(&g);
    return code;
}

/* ---- shapes and arrays ------------------------------------------------------------------------------------------ */

/* What is known of the variables: given shapes and types, shapes of the file's arrays. */
typedef struct known {
    MX_VEC(const char *) names;
    MX_VEC(mx_dims) shapes;
    MX_VEC(mx_dtype) types;
} known;

static mx_code know(known *k, const char *name, mx_dims shape, mx_dtype type)
{
    return mx_vec_push(&k->names, name) && mx_vec_push(&k->shapes, shape) && mx_vec_push(&k->types, type)
               ? MX_OK
               : mx_error_code();
}

static mx_dtype given_type(const request *r, const char *name, mx_dtype fallback)
{
    for (uint32_t i = 0; i < r->n_types; i++)
        if (r->type_names[i] && !strcmp(r->type_names[i], name))
            return (mx_dtype)r->types[i];
    return fallback;
}

static mx_code check_types(const request *r)
{
    for (uint32_t i = 0; i < r->n_types; i++)
        if (!mx_dtype_size((mx_dtype)r->types[i]))
            return mx_fail(MX_ERR_DTYPE, "%s: %d for '%s' is not an element type", r->who, r->types[i],
                           r->type_names[i] ? r->type_names[i] : "NULL");
    return MX_OK;
}

static void forget(known *k)
{
    mx_vec_free(&k->names);
    mx_vec_free(&k->shapes);
    mx_vec_free(&k->types);
}

static mx_array *zeros(mx_dims shape, mx_dtype type, mx_context context)
{
    mx_array *x = mx_empty(shape, type == MX_DTYPE_NONE ? MX_FLOAT32 : type, context);
    return x && !mx_array_fill(x, 0) ? x : NULL;
}

/* Arrays of the inputs, and the shapes of the outputs, from what was inferred. */
static mx_code take_inferred(mx_predictor *p, const mx_inferred *inferred)
{
    const mx_names names = mx_symbol_arguments(p->symbol);
    for (int64_t i = 0; i < names.n; i++) {
        mx_dict_entry *input = mx_dict_find(&p->inputs, names.v[i]);
        if (!input)
            continue;
        if (inferred->arguments[i].n < 0)
            return mx_fail(MX_ERR_SHAPE, "the shape of input '%s' does not follow from the others; name it, too",
                           names.v[i]);
        mx_release(input->pointer);
        input->pointer = mx_keep(zeros(inferred->arguments[i], inferred->argument_types[i], p->context));
        if (!input->pointer)
            return mx_error_code();
    }
    for (int64_t i = 0; i < p->n_out; i++) {
        p->shapes[i] = inferred->outputs[i];
        p->types[i] = inferred->output_types[i] == MX_DTYPE_NONE ? MX_FLOAT32 : inferred->output_types[i];
        for (int k = 0; k < p->shapes[i].n; k++)
            if (!inferred->complete && !p->shapes[i].d[k])
                p->shapes[i].n = -1;
    }
    return MX_OK;
}

static const mx_inferred *infer(const mx_predictor *p, known *k)
{
    return mx_symbol_infer(p->symbol, &(struct mx_known){.count = (int)k->names.length,
                                                         .names = k->names.items,
                                                         .shapes = k->shapes.items,
                                                         .types = k->types.items,
                                                         .partial = true});
}

static mx_predictor *new_predictor(mx_symbol *symbol, mx_context context)
{
    mx_predictor *p = mx_alloc_zero(sizeof *p);
    if (!p)
        return NULL;
    mx_object_init(&p->object, &mx_predictor_kind);
    p->symbol = mx_retain(symbol);
    p->context = context;
    p->n_out = symbol->n;
    const size_t n = (size_t)p->n_out;
    p->shapes = mx_alloc_zero(n * sizeof *p->shapes);
    p->types = mx_alloc_zero(n * sizeof *p->types);
    p->outputs = mx_alloc_zero(n * sizeof *p->outputs);
    p->shown = mx_alloc_zero(n * sizeof *p->shown);
    if (mx_scope_add(p) && p->shapes && p->types && p->outputs && p->shown)
        return p;
    return NULL;
}

/* ---- the network ------------------------------------------------------------------------------------------------ */

static mx_code load_parameter(mx_block *net, const char *name, mx_array *value, mx_dtype type, bool *cast)
{
    mx_parameter *q = mx_params_find(mx_block_params(net), name);
    if (!q)
        return MX_OK;
    if (type != MX_DTYPE_NONE && mx_parameter_dtype(q) != type) {
        *cast = true;
        if (mx_parameter_cast(q, type))
            return mx_error_code();
    }
    return mx_parameter_load(q, value);
}

/* Parameters get the types that follow from those of the inputs.  The network is hybridized unless these types differ from
 * those that its graph notes: plans are made for the latter. */
static mx_code load(mx_predictor *p, const mx_array_dict *file, const mx_inferred *inferred)
{
    const mx_names arguments = mx_symbol_arguments(p->symbol), states = mx_symbol_auxiliary(p->symbol);
    const mx_context before = mx_set_current_context(p->context);
    mx_code code = arguments.n < 0 || states.n < 0 ? mx_error_code() : MX_OK;
    bool cast = false;
    for (int64_t i = 0; !code && i < arguments.n + states.n; i++) {
        const int64_t k = i - arguments.n;
        const char *name = k < 0 ? arguments.v[i] : states.v[k];
        mx_array *value = mx_dict_find(&p->inputs, name) ? NULL : value_in_file(file, name);
        if (value)
            code = load_parameter(p->net, name, value,
                                  k < 0 ? inferred->argument_types[i] : inferred->auxiliary_types[k], &cast);
    }
    mx_set_current_context(before);
    return code || cast ? code : mx_hybridize(p->net);
}

static mx_block *make_net(const mx_predictor *p)
{
    mx_text names = {0};
    for (int64_t i = 0; i < p->inputs.length; i++)
        mx_text_print(&names, "%s,", p->inputs.entries[i].key);
    const char *list = mx_text_to_scope(&names);
    return list ? mx_symbol_block(p->symbol, list) : NULL;
}

static mx_code know_all(known *k, const request *r, mx_predictor *p, const mx_array_dict *file)
{
    const mx_names names = mx_symbol_inputs(p->symbol);
    mx_code code = names.n < 0 ? mx_error_code() : check_types(r);
    for (uint32_t i = 0; !code && i < r->inputs.n; i++) {
        code = know(k, r->inputs.names[i], shape_of(&r->inputs, i), given_type(r, r->inputs.names[i], MX_FLOAT32));
        code = code ? code : mx_dict_place(&p->inputs, r->inputs.names[i]) ? MX_OK : mx_error_code();
    }
    for (int64_t i = 0; !code && i < names.n; i++) {
        const mx_array *value = value_in_file(file, names.v[i]);
        const mx_dtype type = given_type(r, names.v[i], MX_DTYPE_NONE);
        if (!mx_dict_find(&p->inputs, names.v[i]) && (value || type != MX_DTYPE_NONE))
            code = know(k, names.v[i], value ? mx_shape(value) : MX_NO_DIMS, type);
    }
    return code;
}

static mx_predictor *create(const request *r)
{
    mx_array_dict *file = mx_load_buffer(r->bytes, (size_t)r->size);
    mx_symbol *symbol = file ? read_symbol(r) : NULL;
    mx_predictor *p = symbol && !check_names(r, symbol) ? new_predictor(symbol, r->context) : NULL;
    known k = {0};
    mx_code code = !p ? mx_error_code() : know_all(&k, r, p, file);
    code = code ? code : find_labels(r, file, p);
    const mx_inferred *inferred = code ? NULL : infer(p, &k);
    code = code ? code : !inferred ? mx_error_code() : take_inferred(p, inferred);
    if (!code && !(p->net = mx_keep(make_net(p))))
        code = mx_error_code();
    code = code ? code : load(p, file, inferred);
    forget(&k);
    return code ? NULL : p;
}

/* Another predictor of the same network; shapes NULL: for the same shapes. */
static mx_predictor *again(const mx_predictor *from, const mx_predict_inputs *shapes)
{
    mx_predictor *p = new_predictor(from->symbol, from->context);
    known k = {0};
    mx_code code = p ? MX_OK : mx_error_code();
    for (uint32_t i = 0; !code && shapes && i < shapes->n; i++)
        if (!mx_dict_find(&from->inputs, shapes->names[i]))
            code =
                mx_fail(MX_ERR_ARGUMENT, "MXPredReshape: the predictor has no input named '%s'; its first one is '%s'",
                        shapes->names[i], from->inputs.entries[0].key);
    for (int64_t i = 0; !code && i < from->inputs.length; i++) {
        const char *name = from->inputs.entries[i].key;
        const mx_array *x = from->inputs.entries[i].pointer;
        mx_dims shape = mx_shape(x);
        bool given = !shapes;
        for (uint32_t s = 0; shapes && s < shapes->n; s++)
            if (!strcmp(shapes->names[s], name))
                shape = shape_of(shapes, s), given = true;
        code = mx_dict_place(&p->inputs, name) ? MX_OK : mx_error_code();
        code = code ? code : know(&k, name, given ? shape : MX_NO_DIMS, mx_dtype_of(x));
    }
    const mx_inferred *inferred = code ? NULL : infer(p, &k);
    code = code ? code : !inferred ? mx_error_code() : take_inferred(p, inferred);
    forget(&k);
    if (code)
        return NULL;
    p->net = mx_keep(from->net);
    return p;
}

/* ---- the interface ---------------------------------------------------------------------------------------------- */

static int create_many(const request *r, int count, PredictorHandle *out)
{
    MX_ENTRY;
    mx_code code = check(r, out);
    for (int i = 0; !code && i < count; i++)
        out[i] = NULL;
    for (int i = 0; !code && i < count; i++)
        if (!(out[i] = mx_keep(i ? again(out[0], NULL) : create(r))))
            code = mx_error_code();
    for (int i = 0; code && out && i < count && r->json && r->bytes; i++) {
        mx_release(out[i]);
        out[i] = NULL;
    }
    return mx_entry_end(code);
}

#define REQUEST(name)                                                                                           \
    {.who = name, .json = symbol_json_str, .bytes = param_bytes, .size = param_size,                            \
     .context = {dev_type, dev_id},                                                                              \
     .inputs = {num_input_nodes, input_keys, input_shape_indptr, input_shape_data}}

int MXPredCreate(const char *symbol_json_str, const void *param_bytes, int param_size, int dev_type, int dev_id,
                 mx_uint num_input_nodes, const char **input_keys, const mx_uint *input_shape_indptr,
                 const mx_uint *input_shape_data, PredictorHandle *out)
{
    const request r = REQUEST("MXPredCreate");
    return create_many(&r, 1, out);
}

int MXPredCreateEx(const char *symbol_json_str, const void *param_bytes, int param_size, int dev_type, int dev_id,
                   mx_uint num_input_nodes, const char **input_keys, const mx_uint *input_shape_indptr,
                   const mx_uint *input_shape_data, mx_uint num_provided_arg_dtypes,
                   const char **provided_arg_dtype_names, const int *provided_arg_dtypes, PredictorHandle *out)
{
    request r = REQUEST("MXPredCreateEx");
    r.n_types = num_provided_arg_dtypes, r.type_names = provided_arg_dtype_names, r.types = provided_arg_dtypes;
    return create_many(&r, 1, out);
}

int MXPredCreatePartialOut(const char *symbol_json_str, const void *param_bytes, int param_size, int dev_type,
                           int dev_id, mx_uint num_input_nodes, const char **input_keys,
                           const mx_uint *input_shape_indptr, const mx_uint *input_shape_data, mx_uint num_output_nodes,
                           const char **output_keys, PredictorHandle *out)
{
    request r = REQUEST("MXPredCreatePartialOut");
    r.n_outputs = num_output_nodes, r.output_names = output_keys;
    return create_many(&r, 1, out);
}

int MXPredCreateMultiThread(const char *symbol_json_str, const void *param_bytes, int param_size, int dev_type,
                            int dev_id, mx_uint num_input_nodes, const char **input_keys,
                            const mx_uint *input_shape_indptr, const mx_uint *input_shape_data, int num_threads,
                            PredictorHandle *out)
{
    const request r = REQUEST("MXPredCreateMultiThread");
    if (num_threads > 0)
        return create_many(&r, num_threads, out);
    mx_error_clear();
    return mx_entry_end(
        mx_fail(MX_ERR_ARGUMENT, "MXPredCreateMultiThread: num_threads is %d, wanted 1 or more", num_threads));
}

int MXPredReshape(mx_uint num_input_nodes, const char **input_keys, const mx_uint *input_shape_indptr,
                  const mx_uint *input_shape_data, PredictorHandle handle, PredictorHandle *out)
{
    MX_ENTRY;
    const mx_predict_inputs shapes = {num_input_nodes, input_keys, input_shape_indptr, input_shape_data};
    if (!mx_is_kind(handle, &mx_predictor_kind, "MXPredReshape", "handle"))
        return mx_entry_end(mx_error_code());
    mx_code code = out ? mx_predict_check_inputs(&shapes, "MXPredReshape")
                       : mx_fail(MX_ERR_ARGUMENT, "MXPredReshape: out is NULL");
    if (!code && !(*out = mx_keep(again(handle, &shapes))))
        code = mx_error_code();
    return mx_entry_end(code);
}

int MXPredFree(PredictorHandle handle)
{
    MX_ENTRY;
    if (!mx_is_kind(handle, &mx_predictor_kind, "MXPredFree", "handle"))
        return mx_entry_end(mx_error_code());
    mx_release(handle);
    return mx_entry_end(MX_OK);
}
