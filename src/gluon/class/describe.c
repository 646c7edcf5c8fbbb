/* The description of a class as JSON, from which documentation, stubs and front ends are generated.
 *
 *     {"kind": "optimizer", "name": "SGD", "aliases": ["ccsgd"], "doc": "...", "group": null, "positional": 0, "by_name": 8,
 *      "options": [{"name": "momentum", "type": "float", "required": false, "default": "0.0", "rule": "",
 *                   "doc": "..."}]}
 *
 * A required option has "default": null; an enum has "choices" in place of "rule"; the rule of an object is its C type.
 * C callers pass the first `positional` options by position; the last `by_name` options are keyword-only in front ends.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "gluon/class/class.h"
#include "gluon/block/core.h"
#include "op/schema_types.h"

static const char *const kind_names[MX_CLASS_KINDS] = {
    [MX_LAYER] = "layer",         [MX_LOSS] = "loss",           [MX_INITIALIZER] = "initializer",
    [MX_OPTIMIZER] = "optimizer", [MX_LR_SCHEDULER] = "lr_scheduler", [MX_METRIC] = "metric",
};

static void key(mx_text *out, const char *name)
{
    mx_json_write_text(out, name);
    mx_text_add(out, ": ");
}

static void member(mx_text *out, const char *name, const char *text)
{
    mx_text_add(out, ", ");
    key(out, name);
    if (text)
        mx_json_write_text(out, text);
    else
        mx_text_add(out, "null");
}

/* Opens or continues a list. */
static void item(mx_text *out, int i, const char *text)
{
    mx_text_add(out, i ? ", " : "");
    mx_json_write_text(out, text);
}

static void write_aliases(mx_text *out, const char *aliases)
{
    char word[128];
    int n = 0;
    mx_text_add(out, ", ");
    key(out, "aliases");
    mx_text_add_char(out, '[');
    for (const char *p = aliases ? aliases : ""; *(p += strspn(p, " ")); p += strcspn(p, " ")) {
        const size_t length = strcspn(p, " ") < sizeof word ? strcspn(p, " ") : sizeof word - 1;
        memcpy(word, p, length);
        word[length] = 0;
        item(out, n++, word);
    }
    mx_text_add_char(out, ']');
}

static void write_rule(mx_text *out, const mx_field *field)
{
    char choice[64];
    if (field->type != MX_FIELD_ENUM) {
        member(out, "rule", field->rule);
        return;
    }
    mx_text_add(out, ", ");
    key(out, "choices");
    mx_text_add_char(out, '[');
    for (int i = 0; mx_rule_choice(field->rule, i, choice); i++)
        item(out, i, choice);
    mx_text_add_char(out, ']');
}

static void write_option(mx_text *out, const mx_field *field)
{
    mx_text_add_char(out, '{');
    key(out, "name");
    mx_json_write_text(out, field->name);
    member(out, "type", mx_field_types[field->type].name);
    mx_text_print(out, ", \"required\": %s", field->fallback ? "false" : "true");
    member(out, "default", field->fallback);
    write_rule(out, field);
    member(out, "doc", field->doc);
    mx_text_add_char(out, '}');
}

const char *mx_class_describe(const mx_class *cls)
{
    mx_text out = {0};
    if (!cls)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_class_describe: cls is NULL");
    mx_text_add_char(&out, '{');
    key(&out, "kind");
    mx_json_write_text(&out, kind_names[cls->kind]);
    member(&out, "name", cls->name);
    write_aliases(&out, cls->aliases);
    member(&out, "doc", cls->doc);
    member(&out, "group", cls->group);
    if (cls->kind == MX_LAYER || cls->kind == MX_LOSS)
        member(&out, "inputs", ((const mx_layer *)cls->methods)->inputs);
    mx_text_print(&out, ", \"positional\": %d, \"by_name\": %d, \"options\": [", cls->positional, cls->by_name);
    for (int i = 0; cls->schema && i < cls->schema->count; i++) {
        mx_text_add(&out, i ? ", " : "");
        write_option(&out, &cls->schema->fields[i]);
    }
    mx_text_add(&out, "]}");
    return mx_text_to_scope(&out);
}
