/* Everything about an operator as JSON, from which documentation, stubs and other front ends are generated.
 *
 *     {"name": "softmax", "aliases": [...], "doc": "...", "c_name": "softmax",
 *      "inputs": [{"name": "data", "optional": false, "list": false}], "outputs": ["output"], "visible_outputs": 1,
 *      "attributes": [{"name": "axis", "type": "int", "default": "-1", "rule": "", "doc": "..."}],
 *      "flags": [...], "differentiable": "yes", "methods": ["softmax"],
 *      "precision": "float32", "sparse": "zeros", "sparse_gradient": false}
 *
 * A required attribute has "default": null and "required": true; an enum has "choices".  Counts that depend on the
 * attributes are null.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "op/expand.h"
#include "op/schema_types.h"

static const struct {
    uint32_t flag;
    const char *name;
} flag_names[] = {
    {MX_OP_LIST, "list"},         {MX_OP_INPLACE, "inplace"}, {MX_OP_RANDOM, "random"},
    {MX_OP_TRAINING, "training"}, {MX_OP_HIDDEN, "hidden"},   {MX_OP_VIEW, "view"},
    {MX_OP_CREATE, "create"},     {MX_OP_LOSS, "loss"},       {MX_OP_IDENTITY, "identity"},
};

static void key(mx_text *out, const char *name, bool first)
{
    mx_text_add(out, first ? "" : ", ");
    mx_json_write_text(out, name);
    mx_text_add(out, ": ");
}

static void member(mx_text *out, const char *name, const char *text)
{
    key(out, name, false);
    if (text)
        mx_json_write_text(out, text);
    else
        mx_text_add(out, "null");
}

static void truth(mx_text *out, const char *name, bool value)
{
    key(out, name, false);
    mx_text_add(out, value ? "true" : "false");
}

static void words(mx_text *out, const char *name, const char *text)
{
    char word[128];
    bool first = true;
    key(out, name, false);
    mx_text_add_char(out, '[');
    for (const char *p = text ? text : ""; *(p += strspn(p, " ")); p += strcspn(p, " ")) {
        const size_t length = strcspn(p, " ") < sizeof word ? strcspn(p, " ") : sizeof word - 1;
        memcpy(word, p, length);
        word[length] = 0;
        mx_text_add(out, first ? "" : ", ");
        mx_json_write_text(out, word);
        first = false;
    }
    mx_text_add_char(out, ']');
}

/* BatchNorm -> batch_norm, _plus_scalar -> plus_scalar: the name of the C function without mx_. */
static void write_c_name(mx_text *out, const mx_op *op)
{
    char name[128];
    size_t n = 0;
    if (op->c_name || op->flags & MX_OP_HIDDEN) {
        member(out, "c_name", op->flags & MX_OP_HIDDEN ? NULL : op->c_name);
        return;
    }
    for (const char *start = op->name + (op->name[0] == '_'), *p = start; *p && n < sizeof name - 2; p++) {
        if (isupper((unsigned char)*p) && n && name[n - 1] != '_' &&
            (islower((unsigned char)p[-1]) || islower((unsigned char)p[1])))
            name[n++] = '_';
        name[n++] = (char)tolower((unsigned char)*p);
    }
    name[n] = 0;
    member(out, "c_name", name);
}

static void write_inputs(mx_text *out, const mx_op *op)
{
    char name[64];
    key(out, "inputs", false);
    mx_text_add_char(out, '[');
    for (int i = 0; i < op->declared_inputs; i++) {
        const bool list = op->flags & MX_OP_LIST && i == op->declared_inputs - 1;
        mx_op_input_name(op, i, name);
        if (list)
            name[strlen(name) - 1] = 0; /* "data0" -> "data" */
        mx_text_add(out, i ? ", {" : "{");
        key(out, "name", true);
        mx_json_write_text(out, name);
        truth(out, "optional", mx_op_input_optional(op, i));
        truth(out, "list", list);
        truth(out, "differentiable", !(op->no_grad_inputs >> i & 1));
        truth(out, "mutated", op->mutates >> i & 1);
        mx_text_add_char(out, '}');
    }
    mx_text_add_char(out, ']');
}

static void write_count(mx_text *out, const char *name, int count, bool depends)
{
    key(out, name, false);
    if (depends)
        mx_text_add(out, "null");
    else
        mx_text_print(out, "%d", count);
}

static void write_outputs(mx_text *out, const mx_op *op)
{
    char name[64];
    key(out, "outputs", false);
    mx_text_add_char(out, '[');
    for (int i = 0; !op->count_out && i < op->n_out; i++) {
        mx_text_add(out, i ? ", " : "");
        mx_json_write_text(out, mx_op_output_name(op, i, name));
    }
    mx_text_add_char(out, ']');
    write_count(out, "output_count", op->n_out, op->count_out);
    write_count(out, "visible_outputs", op->n_visible, op->count_visible || op->count_out);
}

static void write_choices(mx_text *out, const mx_field *field)
{
    char choice[64];
    key(out, "choices", false);
    mx_text_add_char(out, '[');
    for (int i = 0; mx_rule_choice(field->rule, i, choice); i++) {
        mx_text_add(out, i ? ", " : "");
        mx_json_write_text(out, choice);
    }
    mx_text_add_char(out, ']');
}

static void write_attributes(mx_text *out, const mx_schema *schema)
{
    key(out, "attributes", false);
    mx_text_add_char(out, '[');
    for (int i = 0; schema && i < schema->count; i++) {
        const mx_field *field = &schema->fields[i];
        mx_text_add(out, i ? ", {" : "{");
        key(out, "name", true);
        mx_json_write_text(out, field->name);
        member(out, "type", mx_field_types[field->type].name);
        truth(out, "required", !field->fallback);
        member(out, "default", field->fallback);
        if (field->type == MX_FIELD_ENUM)
            write_choices(out, field);
        else
            member(out, "rule", field->rule);
        member(out, "doc", field->doc);
        mx_text_add_char(out, '}');
    }
    mx_text_add_char(out, ']');
}

static void write_flags(mx_text *out, const mx_op *op)
{
    bool first = true;
    key(out, "flags", false);
    mx_text_add_char(out, '[');
    for (size_t i = 0; i < sizeof flag_names / sizeof *flag_names; i++)
        if (op->flags & flag_names[i].flag) {
            mx_text_add(out, first ? "" : ", ");
            mx_json_write_text(out, flag_names[i].name);
            first = false;
        }
    mx_text_add_char(out, ']');
    const bool gradient = op->gradient || mx_op_expands(op);
    member(out, "differentiable", op->flags & MX_OP_ZERO_GRADIENT ? "zero" : gradient ? "yes" : "no");
}

/* What front ends, mixed precision and sparse arrays use. */
static void write_facts(mx_text *out, const mx_op *op)
{
    static const char *const precisions[] = {"any", "target", "float32", "widest", "data"}; /* by mx_precision */
    static const char *const rules[MX_SPARSE_RULES] = {"refused", "zeros", "two",    "sum",    "fold",    "dot",   "embedding",
                                                       "slice",   "concat", "take",  "retain", "storage", "update"};
    words(out, "methods", op->methods);
    member(out, "precision", precisions[op->precision]);
    member(out, "sparse", rules[op->sparse]);
    truth(out, "sparse_gradient", op->sparse_gradient);
}

const char *mx_op_describe(const mx_op *op)
{
    mx_text out = {0};
    if (!op)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_op_describe: op is NULL");
    mx_text_add_char(&out, '{');
    key(&out, "name", true);
    mx_json_write_text(&out, op->name);
    words(&out, "aliases", op->aliases);
    member(&out, "doc", op->doc);
    write_c_name(&out, op);
    write_inputs(&out, op);
    write_outputs(&out, op);
    write_attributes(&out, op->schema);
    write_flags(&out, op);
    write_facts(&out, op);
    mx_text_add_char(&out, '}');
    return mx_text_to_scope(&out);
}
