/* Shared by the generators of C headers: names, types and default values of schema fields.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op/schema.h"

static FILE *file; /* being written */

/* BatchNorm -> batch_norm, _plus_scalar -> plus_scalar */
static void snake_case(const char *name, char *out, size_t bytes)
{
    const char *p = name + (name[0] == '_');
    size_t n = 0;
    for (; *p && n < bytes - 3; p++) {
        bool starts_word = isupper((unsigned char)*p) && n && out[n - 1] != '_' &&
                           (islower((unsigned char)p[-1]) || islower((unsigned char)p[1]));
        if (starts_word)
            out[n++] = '_';
        out[n++] = (char)tolower((unsigned char)*p);
    }
    out[n] = 0;
}

static const char *const c_types[MX_FIELD_TYPES] = {
    [MX_FIELD_BOOL] = "bool",   [MX_FIELD_INT] = "int64_t",  [MX_FIELD_FLOAT] = "double",      [MX_FIELD_ENUM] = "int",
    [MX_FIELD_DTYPE] = "mx_dtype", [MX_FIELD_DIMS] = "mx_dims", [MX_FIELD_FLOATS] = "mx_floats", [MX_FIELD_STR] = "const char *",
    [MX_FIELD_CTX] = "mx_context", [MX_FIELD_PTR] = "void *",
};

/* The rule of an object field names its C type. */
static void write_field(const mx_field *f)
{
    if (f->type == MX_FIELD_PTR && *f->rule)
        fprintf(file, "    %s *%s;", f->rule, f->name);
    else
        fprintf(file, "    %s%s%s;", c_types[f->type], strchr(c_types[f->type], '*') ? "" : " ", f->name);
    const bool shows_rule = *f->rule && f->type != MX_FIELD_PTR;
    fprintf(file, " /* %s%s%s%s%s */\n", f->doc, f->fallback ? "; default " : "; required",
            f->fallback ? f->fallback : "", shows_rule ? "; " : "", shows_rule ? f->rule : "");
}

static void write_fields(const mx_schema *schema)
{
    for (int i = 0; schema && i < schema->count; i++)
        write_field(&schema->fields[i]);
}

static void write_default(const mx_field *f, const void *defaults)
{
    const void *v = (const char *)defaults + f->offset;
    const mx_dims *dims = v;
    switch (f->type) {
    case MX_FIELD_BOOL: fprintf(file, "%s", *(const bool *)v ? "true" : "false"); break;
    case MX_FIELD_INT:
        if (*(const int64_t *)v == MX_NONE_INT)
            fprintf(file, "MX_NONE_INT");
        else
            fprintf(file, "%lld", (long long)*(const int64_t *)v);
        break;
    case MX_FIELD_FLOAT:
        if (isnan(*(const double *)v))
            fprintf(file, "MX_NONE_FLOAT");
        else
            fprintf(file, "%.17g", *(const double *)v);
        break;
    case MX_FIELD_ENUM: fprintf(file, "%d", *(const int *)v); break;
    case MX_FIELD_DTYPE: fprintf(file, "(mx_dtype)%d", *(const int *)v); break;
    case MX_FIELD_DIMS:
        fprintf(file, "{.n = %d, .d = {0", dims->n);
        for (int i = 0; i < dims->n; i++)
            fprintf(file, "%s%lld", i ? ", " : " + ", (long long)dims->d[i]);
        fprintf(file, "}}");
        break;
    case MX_FIELD_FLOATS:
        fprintf(file, "{.n = %d, .d = {0", dims->n);
        for (int i = 0; i < dims->n; i++)
            fprintf(file, "%s%.17g", i ? ", " : " + ", ((const mx_floats *)v)->d[i]);
        fprintf(file, "}}");
        break;
    case MX_FIELD_STR: fprintf(file, *(const char *const *)v ? "\"%s\"" : "NULL", *(const char *const *)v); break;
    case MX_FIELD_CTX: fprintf(file, "{0, 0}"); break;
    default: fprintf(file, "NULL"); break;
    }
}

/* `tool header|source FILE` */
static int generate(int argc, char **argv, void (*write_header)(void), void (*write_source)(void))
{
    if (argc != 3 || (strcmp(argv[1], "header") && strcmp(argv[1], "source")))
        return fprintf(stderr, "usage: %s header|source FILE\n", argv[0]), 2;
    file = fopen(argv[2], "w");
    if (!file)
        return perror(argv[2]), 1;
    if (!strcmp(argv[1], "header"))
        write_header();
    else
        write_source();
    if (fclose(file))
        return perror(argv[2]), 1;
    return mx_check(argv[0]);
}
