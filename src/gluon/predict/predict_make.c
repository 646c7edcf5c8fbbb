/* Making predictors: from a request, or from another predictor, whose network they share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "gluon/block/core.h"
#include "gluon/predict/predict.h"

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

/* ---- shapes and arrays ------------------------------------------------------------------------------------------ */

static mx_dims shape_of(const mx_predict_inputs *in, uint32_t i)
{
    mx_dims dims = {.n = (int32_t)(in->first[i + 1] - in->first[i])};
    for (int k = 0; k < dims.n; k++)
        dims.d[k] = in->dims[in->first[i] + (uint32_t)k];
    return dims;
}

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

static mx_dtype given_type(const mx_predict_request *r, const char *name, mx_dtype fallback)
{
    for (uint32_t i = 0; i < r->n_types; i++)
        if (r->type_names[i] && !strcmp(r->type_names[i], name))
            return (mx_dtype)r->types[i];
    return fallback;
}

static mx_code check_types(const mx_predict_request *r)
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
        mx_array *value = mx_dict_find(&p->inputs, name) ? NULL : mx_predict_value(file, name);
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

static mx_code know_all(known *k, const mx_predict_request *r, mx_predictor *p, const mx_array_dict *file)
{
    const mx_names names = mx_symbol_inputs(p->symbol);
    mx_code code = names.n < 0 ? mx_error_code() : check_types(r);
    for (uint32_t i = 0; !code && i < r->inputs.n; i++) {
        code = know(k, r->inputs.names[i], shape_of(&r->inputs, i), given_type(r, r->inputs.names[i], MX_FLOAT32));
        code = code ? code : mx_dict_place(&p->inputs, r->inputs.names[i]) ? MX_OK : mx_error_code();
    }
    for (int64_t i = 0; !code && i < names.n; i++) {
        const mx_array *value = mx_predict_value(file, names.v[i]);
        const mx_dtype type = given_type(r, names.v[i], MX_DTYPE_NONE);
        if (!mx_dict_find(&p->inputs, names.v[i]) && (value || type != MX_DTYPE_NONE))
            code = know(k, names.v[i], value ? mx_shape(value) : MX_NO_DIMS, type);
    }
    return code;
}

mx_predictor *mx_predict_new(const mx_predict_request *r)
{
    mx_array_dict *file = mx_load_buffer(r->bytes, (size_t)r->size);
    mx_symbol *symbol = file ? mx_predict_read_symbol(r) : NULL;
    mx_predictor *p = symbol && !mx_predict_check_names(r, symbol) ? new_predictor(symbol, r->context) : NULL;
    known k = {0};
    mx_code code = !p ? mx_error_code() : know_all(&k, r, p, file);
    code = code ? code : mx_predict_find_labels(r, file, p);
    const mx_inferred *inferred = code ? NULL : infer(p, &k);
    code = code ? code : !inferred ? mx_error_code() : take_inferred(p, inferred);
    if (!code && !(p->net = mx_keep(make_net(p))))
        code = mx_error_code();
    code = code ? code : load(p, file, inferred);
    forget(&k);
    return code ? NULL : p;
}

mx_predictor *mx_predict_again(const mx_predictor *from, const mx_predict_inputs *shapes)
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
