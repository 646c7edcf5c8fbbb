/* Operations on schemas: layout, defaults, checking and comparing attribute structs (see schema.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/schema.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/suggest.h"
#include "op/schema_types.h"

static const struct { size_t size, align; } layouts[MX_FIELD_TYPES] = {
#define LAYOUT(type) [MX_FIELD_##type] = {sizeof(mx_c_##type), _Alignof(mx_c_##type)}
    LAYOUT(BOOL),   LAYOUT(INT), LAYOUT(FLOAT), LAYOUT(ENUM), LAYOUT(DTYPE), LAYOUT(DIMS),
    LAYOUT(FLOATS), LAYOUT(STR), LAYOUT(CTX),   LAYOUT(PTR),
};

void mx_schema_layout(mx_schema *schema)
{
    size_t offset = 0;
    for (int i = 0; i < schema->count; i++) {
        mx_field *f = &schema->fields[i];
        offset = (offset + layouts[f->type].align - 1) / layouts[f->type].align * layouts[f->type].align;
        f->offset = offset;
        offset += layouts[f->type].size;
    }
}

const mx_field *mx_schema_find(const mx_schema *schema, const char *name)
{
    for (int i = 0; schema && name && i < schema->count; i++)
        if (!strcmp(schema->fields[i].name, name))
            return &schema->fields[i];
    return NULL;
}

void mx_schema_defaults(const mx_schema *schema, void *attrs)
{
    memset(attrs, 0, schema->size);
    for (int i = 0; i < schema->count; i++) {
        const mx_field *f = &schema->fields[i];
        void *value = (char *)attrs + f->offset;
        mx_field_types[f->type].none(value);
        if (f->fallback)
            mx_field_types[f->type].parse(f, f->fallback, value);
    }
}

static mx_code unknown_field(const mx_schema *schema, const char *who, const char *name)
{
    char names[512] = "";
    size_t used = 0;
    for (int i = 0; schema && i < schema->count && used < sizeof names - 1; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", schema->fields[i].name);
    mx_suggestion s = {.word = name};
    for (int i = 0; schema && i < schema->count; i++)
        mx_suggest(&s, schema->fields[i].name);
    return mx_fail(MX_ERR_ATTRIBUTE, "%s: unknown attribute '%s'%s%s there %s %s", who, name, mx_suggest_text(&s),
                   s.best ? "" : ";", used ? "are" : "is", used ? names : "none");
}

mx_code mx_schema_set(const mx_schema *schema, void *attrs, const char *who, const char *name, const char *text)
{
    const mx_field *f = mx_schema_find(schema, name);
    if (!f)
        return unknown_field(schema, who, name ? name : "NULL");
    if (!text)
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: %s is NULL, wanted %s", who, name, mx_field_types[f->type].wanted);
    if (!mx_field_types[f->type].parse(f, text, (char *)attrs + f->offset))
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: %s='%.80s', wanted %s%s%s", who, name, text,
                       mx_field_types[f->type].wanted, *f->rule ? " " : "", f->rule);
    return MX_OK;
}

/* Splits "a=1, b=(2, 3)" at commas outside brackets. */
mx_code mx_schema_parse(const mx_schema *schema, void *attrs, const char *who, const char *list)
{
    while (list && *list) {
        char name[64], value[MX_VALUE_TEXT];
        size_t n = 0;
        list += strspn(list, " ,\t\n");
        if (!*list)
            break;
        size_t name_length = strcspn(list, "= ,");
        const char *equals = list + name_length + strspn(list + name_length, " ");
        if (*equals != '=' || name_length >= sizeof name)
            return mx_fail(MX_ERR_ATTRIBUTE, "%s: options '%.80s' are not of the form name=value, ...", who, list);
        memcpy(name, list, name_length);
        name[name_length] = 0;
        list = equals + 1 + strspn(equals + 1, " ");
        for (int depth = 0; *list && (depth > 0 || *list != ','); list++) {
            depth += (*list == '(' || *list == '[') - (*list == ')' || *list == ']');
            if (n >= sizeof value - 1)
                return mx_fail(MX_ERR_ATTRIBUTE, "%s: the value of %s is longer than %d characters", who, name,
                               MX_VALUE_TEXT);
            value[n++] = *list;
        }
        while (n && value[n - 1] == ' ')
            n--;
        value[n] = 0;
        mx_code code = mx_schema_set(schema, attrs, who, name, value);
        if (code)
            return code;
    }
    return MX_OK;
}

bool mx_rule_range(const char *rule, double *low, double *high)
{
    const char *dots = rule ? strstr(rule, "..") : NULL;
    if (!dots)
        return false;
    *low = dots == rule ? -INFINITY : strtod(rule, NULL);
    *high = dots[2] ? strtod(dots + 2, NULL) : INFINITY;
    return true;
}

const char *mx_rule_choice(const char *rule, int index, char *buffer)
{
    while (index > 0 && (rule = strchr(rule, '|'))) {
        rule++;
        index--;
    }
    if (!rule || !*rule)
        return NULL;
    size_t length = strcspn(rule, "|");
    if (length > 63)
        length = 63;
    memcpy(buffer, rule, length);
    buffer[length] = 0;
    return buffer;
}

static mx_code check_range(const mx_field *f, double value, const char *who)
{
    double low, high;
    if (!mx_rule_range(f->rule, &low, &high) || (value >= low && value <= high))
        return MX_OK;
    return mx_fail(MX_ERR_ATTRIBUTE, "%s: %s=%g, wanted a number in %s", who, f->name, value, f->rule);
}

static mx_code check_field(const mx_field *f, const void *value, const char *who)
{
    if (mx_field_types[f->type].is_none(value)) {
        const bool ruled = *f->rule && f->type != MX_FIELD_PTR; /* None is neither a choice nor in the range */
        if (f->fallback && ruled && strcmp(f->fallback, "None"))
            return mx_fail(MX_ERR_ATTRIBUTE, "%s: %s=None, wanted %s %s", who, f->name, mx_field_types[f->type].wanted,
                           f->rule);
        if (f->fallback)
            return MX_OK;
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: %s is required: %s", who, f->name, mx_field_types[f->type].wanted);
    }
    return mx_field_types[f->type].check ? mx_field_types[f->type].check(f, value, who) : MX_OK;
}

mx_code mx_schema_check(const mx_schema *schema, const void *attrs, const char *who)
{
    for (int i = 0; schema && i < schema->count; i++) {
        const mx_field *f = &schema->fields[i];
        const void *value = (const char *)attrs + f->offset;
        mx_code code = check_field(f, value, who);
        if (!code && *f->rule && f->type == MX_FIELD_INT && *(const int64_t *)value != MX_NONE_INT)
            code = check_range(f, (double)*(const int64_t *)value, who);
        if (!code && *f->rule && f->type == MX_FIELD_FLOAT && !isnan(*(const double *)value))
            code = check_range(f, *(const double *)value, who);
        if (code)
            return code;
    }
    return MX_OK;
}

bool mx_schema_equal(const mx_schema *schema, const void *a, const void *b)
{
    for (int i = 0; schema && i < schema->count; i++) {
        const mx_field *f = &schema->fields[i];
        if (!mx_field_types[f->type].equal((const char *)a + f->offset, (const char *)b + f->offset))
            return false;
    }
    return true;
}

const char *mx_field_text(const mx_field *field, const void *attrs, char *buffer)
{
    const void *value = (const char *)attrs + field->offset;
    if (mx_field_types[field->type].is_none(value) && field->type != MX_FIELD_BOOL)
        return memcpy(buffer, "None", 5);
    mx_field_types[field->type].print(field, value, buffer);
    return buffer;
}
