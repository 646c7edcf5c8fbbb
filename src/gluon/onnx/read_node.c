/* One node of an ONNX file: parsing it and running its row on the values that it names.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "exec/list.h"
#include "gluon/onnx/read.h"
#include "graph/names.h"
#include "ndarray/array.h"

const char *mx_onnx_field_text(const mx_proto_field *f)
{
    mx_text text = {0};
    mx_text_add_bytes(&text, f->bytes ? (const char *)f->bytes : "", (size_t)f->size);
    return mx_text_to_scope(&text);
}

mx_code mx_onnx_fail(const mx_onnx_in *n, mx_code code, const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return mx_fail(code, "%s: node '%s' (%s): %s", n->reader->path, n->name, n->op, message);
}

/* ---- parsing --------------------------------------------------------------------------------------------------- */

typedef struct counts {
    int in, out, attrs;
    int64_t bytes; /* of names */
} counts;

static mx_code count_parts(mx_onnx_part part, counts *c)
{
    mx_proto m = mx_proto_of(part.bytes, part.size);
    for (mx_proto_field f; mx_proto_next(&m, &f);) {
        c->in += f.number == 1;
        c->out += f.number == 2;
        c->attrs += f.number == 5;
    }
    return m.broken ? mx_fail(MX_ERR_FILE, "a node is broken") : MX_OK;
}

static mx_code take_attr(mx_onnx_in *n, const mx_proto_field *field)
{
    mx_onnx_attr *attr = &n->attrs[n->n_attrs++];
    *attr = (mx_onnx_attr){"", field->bytes, field->size};
    mx_proto m = mx_proto_inside(field);
    for (mx_proto_field f; mx_proto_next(&m, &f);)
        if (f.number == 1 && f.kind == MX_PROTO_BYTES && !(attr->name = mx_onnx_field_text(&f)))
            return mx_error_code();
    return MX_OK;
}

static mx_code take_field(mx_onnx_in *n, const mx_proto_field *f)
{
    const char *text = f->kind == MX_PROTO_BYTES && f->number != 5 ? mx_onnx_field_text(f) : "";
    switch (text ? f->number : 0) {
    case 0: return mx_error_code();
    case 1: n->in_name[n->n_in++] = text; break;
    case 2: n->out_name[n->n_out++] = text; break;
    case 3: n->name = text; break;
    case 4: n->op = text; break;
    case 5: return take_attr(n, f);
    case 7: n->domain = text; break;
    default: break;
    }
    return MX_OK;
}

static void *zeroed(int64_t n, size_t size) /* belongs to the scope */
{
    return mx_list_new((int64_t)(((size_t)n * size + sizeof(void *) - 1) / sizeof(void *)));
}

enum { MORE = 8 };

static mx_code parse(mx_onnx_in *n, mx_onnx_part part)
{
    counts c = {0};
    if (count_parts(part, &c))
        return mx_error_code();
    c.in += MORE; /* rows may look at inputs and outputs that the node does not have */
    c.out += MORE;
    n->in_name = zeroed(c.in, sizeof(char *));
    n->out_name = zeroed(c.out, sizeof(char *));
    n->in = zeroed(c.in, sizeof(mx_array *));
    n->value = zeroed(c.in, sizeof(mx_array *));
    n->out = zeroed(c.out, sizeof(mx_array *));
    n->lists = zeroed(c.in, sizeof *n->lists);
    n->made = zeroed(c.out, sizeof *n->made);
    n->in_type = zeroed(c.in, sizeof(int));
    n->out_type = zeroed(c.out, sizeof(int));
    n->attrs = zeroed(c.attrs, sizeof *n->attrs);
    if (!n->lists || !n->made || !n->in_type || !n->out_type || !n->in_name || !n->out_name || !n->in || !n->value ||
        !n->out || !n->attrs)
        return mx_error_code();
    for (int i = 0; i < c.in; i++) {
        n->in[i] = MX_NONE;
        n->in_name[i] = "";
    }
    mx_proto m = mx_proto_of(part.bytes, part.size);
    mx_code code = MX_OK;
    for (mx_proto_field f; !code && mx_proto_next(&m, &f);)
        code = take_field(n, &f);
    if (!*n->name && n->n_out)
        n->name = n->out_name[0];
    return code;
}

/* ---- inputs ---------------------------------------------------------------------------------------------------- */

/* Weights are parameters; numbers that only the computation needs are not trained. */
static bool is_weight(const mx_onnx_value *v)
{
    return v->tensor.bytes && v->x->ndim > 0 && mx_dtype_is_float(v->x->dtype);
}

static mx_code refuse_placeholders(const mx_onnx_in *n, const char *name, const mx_array *x)
{
    const int64_t *numbers = mx_data(x);
    for (int64_t i = 0; x->dtype == MX_INT64 && i < x->size; i++)
        if (mx_onnx_is_unknown(numbers[i]))
            return mx_onnx_fail(n, MX_ERR_SHAPE,
                                "its input '%s' depends on a size that is not known; give the shapes of the inputs",
                                name);
    return MX_OK;
}

/* What represents a constant in the graph: one variable for all its uses. */
static mx_array *variable_of(const mx_onnx_in *n, mx_onnx_value *v, const char *name)
{
    if (v->variable)
        return v->variable;
    if (!v->tensor.bytes && refuse_placeholders(n, name, v->x))
        return NULL;
    mx_text text = {0};
    mx_text_add(&text, name);
    for (int64_t k; !text.failed && (k = mx_dict_count(&n->reader->variables, mx_text_get(&text))) != 0;) {
        if (k < 0)
            return mx_text_free(&text), NULL;
        mx_text_clear(&text);
        mx_text_print(&text, "%s_%lld", name, (long long)k);
    }
    mx_gnode *node = text.failed ? NULL : mx_gnode_constant(mx_text_get(&text), v->x);
    mx_text_free(&text);
    if (node && (is_weight(v) || !mx_note_set(node, "__grad_req__", "null")))
        v->variable = mx_array_symbolic(node, 0);
    mx_release(node);
    return v->variable;
}

mx_array *mx_onnx_variable(mx_onnx_in *n, int i)
{
    mx_onnx_value *v = n->value[i] ? mx_onnx_find(n->reader, n->in_name[i]) : NULL;
    return v ? variable_of(n, v, n->in_name[i]) : n->in[i];
}

static mx_onnx_value *find_input(mx_onnx_in *n, int i)
{
    mx_onnx_value *v = mx_onnx_find(n->reader, n->in_name[i]);
    if (!v) {
        mx_onnx_fail(n, MX_ERR_FILE, "its input '%s' is not the result of an earlier node", n->in_name[i]);
        return NULL;
    }
    if (!v->x && !v->items.v) {
        char who[600];
        snprintf(who, sizeof who, "%s: initializer '%.200s'", n->reader->path, n->in_name[i]);
        v->x = mx_keep(mx_onnx_read_tensor(n->reader, v->tensor, who, &v->type));
    }
    return v->x || v->items.v ? v : NULL;
}

static mx_code take_inputs(mx_onnx_in *n)
{
    for (int i = 0; i < n->n_in; i++) {
        mx_onnx_value *v = *n->in_name[i] ? find_input(n, i) : NULL;
        if (!v && *n->in_name[i])
            return mx_error_code();
        if (v && v->items.v) {
            n->lists[i] = v->items;
            for (int64_t k = 0; k < v->items.n; k++)
                n->live |= mx_is_symbolic(v->items.v[k]);
        } else if (v) {
            n->in[i] = v->x;
            n->in_type[i] = v->type;
            n->value[i] = mx_is_symbolic(v->x) ? NULL : v->x;
            n->live |= !n->value[i];
        }
    }
    return MX_OK;
}

/* Rows that read the elements of an input use `value`; all others see variables, so that weights stay weights. */
static mx_code use_variables(mx_onnx_in *n, uint32_t constants)
{
    for (int i = 0; n->live && i < n->n_in; i++)
        if (n->value[i] && !(i < 32 && constants >> i & 1) &&
            !(n->in[i] = variable_of(n, mx_onnx_find(n->reader, n->in_name[i]), n->in_name[i])))
            return mx_error_code();
    return MX_OK;
}

/* ---- running --------------------------------------------------------------------------------------------------- */

static mx_code run_same(mx_onnx_in *n, const char *ours)
{
    mx_op *op = mx_op_find(ours);
    return op ? mx_invoke(op, NULL, n->n_in, n->in, n->n_out, n->out) : mx_error_code();
}

static mx_onnx_part find_function(const mx_onnx_reader *r, const mx_onnx_in *n)
{
    for (int64_t i = 0; i < r->functions.length; i++) {
        const char *name = "", *domain = "";
        mx_proto m = mx_proto_of(r->functions.items[i].bytes, r->functions.items[i].size);
        for (mx_proto_field f; mx_proto_next(&m, &f);)
            if (f.kind == MX_PROTO_BYTES && f.number == 1)
                name = mx_onnx_field_text(&f);
            else if (f.kind == MX_PROTO_BYTES && f.number == 10)
                domain = mx_onnx_field_text(&f);
        if (name && domain && !strcmp(name, n->op) && !strcmp(domain, n->domain))
            return r->functions.items[i];
    }
    return (mx_onnx_part){0};
}

static mx_code run_function(mx_onnx_in *n, mx_onnx_part function)
{
    mx_onnx_reader *r = n->reader;
    mx_onnx_frame frame = {.call = n}, *outer = r->frame;
    int k = 0;
    if (r->depth >= 32)
        return mx_onnx_fail(n, MX_ERR_FILE, "functions call each other without an end");
    mx_code code = MX_OK;
    r->frame = &frame;
    r->depth++;
    mx_proto m = mx_proto_of(function.bytes, function.size);
    for (mx_proto_field f; !code && mx_proto_next(&m, &f);)
        if (f.number == 4 && f.kind == MX_PROTO_BYTES && k < n->n_in) {
            const char *name = mx_onnx_field_text(&f);
            code = !name                 ? mx_error_code()
                   : n->in[k] == MX_NONE ? MX_OK
                                         : mx_onnx_define(r, name, n->in[k], n->in_type[k]);
            k++;
        }
    code = code ? code : mx_onnx_run_nodes(r, function, 7);
    m = mx_proto_of(function.bytes, function.size);
    k = 0;
    for (mx_proto_field f; !code && mx_proto_next(&m, &f);)
        if (f.number == 5 && f.kind == MX_PROTO_BYTES && k < n->n_out) {
            const char *name = mx_onnx_field_text(&f);
            mx_onnx_value *v = name ? mx_onnx_find(r, name) : NULL;
            n->out_type[k] = v ? v->type : 0;
            n->out[k++] = v ? mx_scope_add(mx_retain(v->x)) : NULL;
        }
    r->frame = outer;
    r->depth--;
    mx_onnx_free_frame(&frame);
    return code;
}

static mx_code run_row(mx_onnx_in *n)
{
    const bool usual = !*n->domain || !strcmp(n->domain, "ai.onnx") || !strcmp(n->domain, "ai.onnx.ml");
    const mx_onnx_row *row = usual ? mx_dict_get(&n->reader->rows, n->op) : NULL;
    mx_onnx_part function = row ? (mx_onnx_part){0} : find_function(n->reader, n);
    if (function.bytes)
        return run_function(n, function);
    if (!row)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "the operator %s of %s is not supported", n->op,
                            usual ? "ONNX" : n->domain);
    n->row = row;
    for (int i = 0; i < n->n_in && !row->sequences; i++)
        if (n->lists[i].v)
            return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "its input '%s' is a sequence", n->in_name[i]);
    const char *before = mx_names_next(n->live ? n->name : NULL);
    mx_code code = use_variables(n, row->constants);
    code = code ? code : row->read ? row->read(n) : run_same(n, row->ours);
    mx_names_next(before);
    return code;
}

/* Operators that do not say anything else hand on the type of their first input. */
static int type_of_output(const mx_onnx_in *n, int i)
{
    const mx_onnx_type *type = n->n_in ? mx_onnx_type_of(n->in_type[0]) : NULL;
    return n->out_type[i] ? n->out_type[i] : type && n->out[i]->dtype == (int)type->held ? type->code : 0;
}

static mx_code take_outputs(mx_onnx_in *n)
{
    for (int i = 0; i < n->n_out; i++) {
        if (!*n->out_name[i])
            continue;
        if (n->made[i].v) {
            if (mx_onnx_define_sequence(n->reader, n->out_name[i], n->made[i]))
                return mx_error_code();
            continue;
        }
        if (!n->out[i])
            return mx_has_error() ? mx_error_code()
                                  : mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "its output %d is not supported", i);
        if (mx_onnx_define(n->reader, n->out_name[i], n->out[i], type_of_output(n, i)))
            return mx_error_code();
    }
    return MX_OK;
}

/* Of the outermost graph: the inputs that no later node uses, and outputs that none uses at all. */
static void drop_unused(const mx_onnx_in *n)
{
    mx_onnx_reader *r = n->reader;
    if (r->depth)
        return;
    for (int i = 0; i < n->n_in; i++)
        if (*n->in_name[i] && mx_onnx_use_ends(&r->uses, n->in_name[i]))
            mx_onnx_drop(r, n->in_name[i]);
    for (int i = 0; i < n->n_out; i++)
        if (*n->out_name[i] && !mx_onnx_is_used(&r->uses, n->out_name[i]))
            mx_onnx_drop(r, n->out_name[i]);
}

mx_code mx_onnx_run_node(mx_onnx_reader *r, mx_onnx_part part)
{
    MX_SCOPE;
    mx_onnx_in n = {.reader = r, .name = "", .op = "", .domain = "", .opset = r->opset};
    mx_code code = parse(&n, part);
    code = code ? code : take_inputs(&n);
    code = code ? code : run_row(&n);
    code = code ? code : take_outputs(&n);
    if (!code)
        drop_unused(&n);
    if (code || mx_has_error()) {
        char who[600];
        snprintf(who, sizeof who, "%.250s: node '%.200s' (%.100s)", r->path, n.name, n.op);
        mx_error_mention(who);
    }
    return mx_has_error() ? mx_error_code() : code;
}
