/* The attribute types: parsing and printing in the spelling of symbol files.
 *
 * Accepts what Python's str() prints: "(1, 1)", "[1, 2]", "(2,)", a bare number for a tuple,
 * "None", "True", "1", an "L" after integers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/schema_types.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static const char *skip(const char *p) { return p + strspn(p, " \t\n"); }
static bool at_end(const char *p) { return !*skip(p); }
static bool is_word(const char *text, const char *word)
{
    text = skip(text);
    size_t n = strlen(word);
    return !strncmp(text, word, n) && at_end(text + n);
}

/* ---- single values -------------------------------------------------------------------------------------- */

static bool scan_int(const char **text, int64_t *value)
{
    const char *p = skip(*text);
    if (!strncmp(p, "None", 4)) {
        *value = MX_NONE_INT;
        *text = p + 4;
        return true;
    }
    char *end;
    errno = 0;
    long long n = strtoll(p, &end, 10);
    if (end == p || errno || n == MX_NONE_INT)
        return false;
    if (*end == 'L')
        end++;
    *value = n;
    *text = end;
    return true;
}

static bool scan_float(const char **text, double *value)
{
    const char *p = skip(*text);
    if (!strncmp(p, "None", 4)) {
        *value = NAN;
        *text = p + 4;
        return true;
    }
    char *end;
    *value = strtod(p, &end);
    bool found = end != p;
    *text = end;
    return found;
}

static bool parse_bool(const mx_field *f, const char *text, void *value)
{
    static const char *const yes[] = {"True", "true", "1"}, *const no[] = {"False", "false", "0"};
    if (is_word(text, "None")) /* not given: the default */
        text = f->fallback && !is_word(f->fallback, "None") ? f->fallback : "False";
    for (int i = 0; i < 3; i++)
        if (is_word(text, yes[i]))
            return *(bool *)value = true;
    for (int i = 0; i < 3; i++)
        if (is_word(text, no[i])) {
            *(bool *)value = false;
            return true;
        }
    return false;
}

static bool parse_int(const mx_field *f, const char *text, void *value)
{
    (void)f;
    if (is_word(text, "True") || is_word(text, "False")) {
        *(int64_t *)value = is_word(text, "True");
        return true;
    }
    return scan_int(&text, value) && at_end(text);
}

static bool parse_float(const mx_field *f, const char *text, void *value)
{
    (void)f;
    return scan_float(&text, value) && at_end(text);
}

static bool parse_enum(const mx_field *f, const char *text, void *value)
{
    char choice[64];
    if (is_word(text, "None")) {
        *(int *)value = -1;
        return true;
    }
    for (int i = 0; mx_rule_choice(f->rule, i, choice); i++)
        if (is_word(text, choice)) {
            *(int *)value = i;
            return true;
        }
    return false;
}

static bool parse_dtype(const mx_field *f, const char *text, void *value)
{
    (void)f;
    *(mx_dtype *)value = MX_DTYPE_NONE;
    if (is_word(text, "None"))
        return true;
    for (int t = 0; t < MX_DTYPE_END; t++)
        if (mx_dtype_size((mx_dtype)t) && is_word(text, mx_dtype_name((mx_dtype)t))) {
            *(mx_dtype *)value = (mx_dtype)t;
            return true;
        }
    return false;
}

static bool parse_str(const mx_field *f, const char *text, void *value)
{
    (void)f;
    *(const char **)value = NULL;
    return is_word(text, "None") || (*(const char **)value = mx_intern(text)) != NULL;
}

static bool parse_ctx(const mx_field *f, const char *text, void *value)
{
    (void)f;
    mx_context c = {0};
    int used = 0;
    char name[16];
    if (at_end(text) || is_word(text, "None")) {
        *(mx_context *)value = c;
        return true;
    }
    if (sscanf(text, " %15[a-z_](%d)%n", name, &c.id, &used) != 2 || !used || !at_end(text + used))
        return false;
    c.type = !strcmp(name, "cpu")          ? MX_CPU
             : !strcmp(name, "gpu")        ? MX_GPU
             : !strcmp(name, "cpu_pinned") ? MX_CPU_PINNED
             : !strcmp(name, "cpu_shared") ? MX_CPU_SHARED
                                           : 0;
    *(mx_context *)value = c;
    return c.type != 0 && c.id >= 0;
}

static bool parse_ptr(const mx_field *f, const char *text, void *value) /* the default may be a name; it is NULL here */
{
    *(void **)value = NULL;
    return is_word(text, "None") || (f->fallback && !strcmp(text, f->fallback));
}

/* ---- tuples --------------------------------------------------------------------------------------------- */

/* Calls one() per number between brackets; a bare number is a tuple of one. Returns the count, -1 on a syntax error. */
static int scan_tuple(const char *text, void *values, bool (*one)(const char **text, void *values, int i))
{
    const char *p = skip(text);
    char close = *p == '(' ? ')' : *p == '[' ? ']' : 0;
    if (close)
        p++;
    int n = 0;
    for (p = skip(p); *p && *p != close; n++) {
        if (n == MX_MAX_TUPLE || !one(&p, values, n))
            return -1;
        p = skip(p);
        if (*p == ',' && close)
            p = skip(p + 1);
        else if (*p != close)
            return -1;
    }
    if (close && *p != close)
        return -1;
    return at_end(close ? p + 1 : p) ? n : -1;
}

static bool one_int(const char **text, void *values, int i) { return scan_int(text, &((int64_t *)values)[i]); }
static bool one_float(const char **text, void *values, int i) { return scan_float(text, &((double *)values)[i]); }

static bool parse_dims(const mx_field *f, const char *text, void *value)
{
    (void)f;
    mx_dims dims = {.n = -1};
    if (!is_word(text, "None") && (dims.n = scan_tuple(text, dims.d, one_int)) < 0)
        return false;
    *(mx_dims *)value = dims;
    return true;
}

static bool parse_floats(const mx_field *f, const char *text, void *value)
{
    (void)f;
    mx_floats floats = {.n = -1};
    if (!is_word(text, "None") && (floats.n = scan_tuple(text, floats.d, one_float)) < 0)
        return false;
    *(mx_floats *)value = floats;
    return true;
}

/* ---- printing ------------------------------------------------------------------------------------------- */

static void print_bool(const mx_field *f, const void *v, char *b)
{
    (void)f, strcpy(b, *(const bool *)v ? "True" : "False");
}
static void print_int(const mx_field *f, const void *v, char *b)
{
    (void)f;
    snprintf(b, 32, "%lld", (long long)*(const int64_t *)v);
}

/* The shortest digits that read back as the same number, as Python prints floats. */
static void shortest(double x, char *b)
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(b, 32, "%.*g", digits, x);
        if (strtod(b, NULL) == x)
            break;
    }
    if (!strpbrk(b, ".einf"))
        strcat(b, ".0");
}
static void print_float(const mx_field *f, const void *v, char *b) { (void)f, shortest(*(const double *)v, b); }
static void print_enum(const mx_field *f, const void *v, char *b)
{
    if (!mx_rule_choice(f->rule, *(const int *)v, b))
        strcpy(b, "?");
}
static void print_dtype(const mx_field *f, const void *v, char *b)
{
    (void)f, strcpy(b, mx_dtype_name(*(const mx_dtype *)v));
}
static void print_str(const mx_field *f, const void *v, char *b)
{
    (void)f;
    snprintf(b, MX_VALUE_TEXT, "%s", *(const char *const *)v);
}
static void print_ctx(const mx_field *f, const void *v, char *b)
{
    (void)f;
    static const char *const names[] = {"cpu", "cpu", "gpu", "cpu_pinned", "cpu", "cpu_shared"};
    const mx_context *c = v;
    snprintf(b, 32, "%s(%d)", names[c->type >= 0 && c->type < 6 ? c->type : 0], c->id);
}
static void print_ptr(const mx_field *f, const void *v, char *b) { (void)f, snprintf(b, 32, "%p", *(void *const *)v); }

static void print_tuple(int n, const void *values, void (*one)(const void *values, int i, char *b), char *b)
{
    size_t used = 0;
    b[used++] = '(';
    for (int i = 0; i < n; i++) {
        char number[40];
        one(values, i, number);
        used += (size_t)snprintf(b + used, MX_VALUE_TEXT - used - 4, "%s%s", i ? ", " : "", number);
    }
    strcpy(b + used, n == 1 ? ",)" : ")");
}
static void one_int_text(const void *values, int i, char *b)
{
    int64_t n = ((const int64_t *)values)[i];
    if (n == MX_NONE_INT)
        strcpy(b, "None");
    else
        snprintf(b, 32, "%lld", (long long)n);
}
static void one_float_text(const void *values, int i, char *b) { shortest(((const double *)values)[i], b); }
static void print_dims(const mx_field *f, const void *v, char *b)
{
    (void)f;
    print_tuple(((const mx_dims *)v)->n, ((const mx_dims *)v)->d, one_int_text, b);
}
static void print_floats(const mx_field *f, const void *v, char *b)
{
    (void)f;
    print_tuple(((const mx_floats *)v)->n, ((const mx_floats *)v)->d, one_float_text, b);
}

/* ---- equality, None, checks ------------------------------------------------------------------------------ */

static bool equal_bool(const void *a, const void *b) { return *(const bool *)a == *(const bool *)b; }
static bool equal_int(const void *a, const void *b) { return *(const int64_t *)a == *(const int64_t *)b; }
static bool equal_float(const void *a, const void *b) { return !memcmp(a, b, sizeof(double)); }
static bool equal_enum(const void *a, const void *b) { return *(const int *)a == *(const int *)b; }
static bool equal_ptr(const void *a, const void *b) { return *(void *const *)a == *(void *const *)b; }
static bool equal_ctx(const void *a, const void *b)
{
    const mx_context *x = a, *y = b;
    return x->type == y->type && x->id == y->id;
}
static bool equal_str(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    return x == y || (x && y && !strcmp(x, y));
}
static bool equal_tuple(const void *a, const void *b) /* mx_dims and mx_floats have one layout */
{
    const mx_dims *x = a, *y = b;
    return x->n == y->n && (x->n <= 0 || !memcmp(x->d, y->d, (size_t)x->n * sizeof x->d[0]));
}

static void none_bool(void *v) { *(bool *)v = false; }
static void none_int(void *v) { *(int64_t *)v = MX_NONE_INT; }
static void none_float(void *v) { *(double *)v = NAN; }
static void none_enum(void *v) { *(int *)v = -1; }
static void none_ptr(void *v) { *(void **)v = NULL; }
static void none_ctx(void *v) { *(mx_context *)v = (mx_context){0}; }
static void none_tuple(void *v) { *(mx_dims *)v = (mx_dims){.n = -1}; }

static bool never_none(const void *v) { return (void)v, false; }
static bool is_none_int(const void *v) { return *(const int64_t *)v == MX_NONE_INT; }
static bool is_none_float(const void *v) { return isnan(*(const double *)v); }
static bool is_none_enum(const void *v) { return *(const int *)v == -1; }
static bool is_none_ptr(const void *v) { return !*(void *const *)v; }
static bool is_none_ctx(const void *v) { return !((const mx_context *)v)->type; }
static bool is_none_tuple(const void *v) { return ((const mx_dims *)v)->n == -1; }

static mx_code check_enum(const mx_field *f, const void *v, const char *who)
{
    char choice[64];
    if (*(const int *)v >= 0 && mx_rule_choice(f->rule, *(const int *)v, choice))
        return MX_OK;
    return mx_fail(MX_ERR_ATTRIBUTE, "%s: %s=%d, wanted one of %s", who, f->name, *(const int *)v, f->rule);
}
static mx_code check_dtype(const mx_field *f, const void *v, const char *who)
{
    if (mx_dtype_size(*(const mx_dtype *)v))
        return MX_OK;
    return mx_fail(MX_ERR_ATTRIBUTE, "%s: %s=%d is not an element type", who, f->name, (int)*(const mx_dtype *)v);
}
static mx_code check_tuple(const mx_field *f, const void *v, const char *who)
{
    int n = ((const mx_dims *)v)->n;
    if (n >= 0 && n <= MX_MAX_TUPLE)
        return MX_OK;
    return mx_fail(MX_ERR_ATTRIBUTE, "%s: %s has %d numbers, wanted at most %d", who, f->name, n, MX_MAX_TUPLE);
}

_Static_assert(sizeof(mx_dims) == sizeof(mx_floats) && offsetof(mx_dims, d) == offsetof(mx_floats, d), "one layout");

const mx_field_type_row mx_field_types[MX_FIELD_TYPES] = {
    [MX_FIELD_BOOL] = {"bool", "True or False", parse_bool, print_bool, equal_bool, none_bool, never_none, NULL},
    [MX_FIELD_INT] = {"int", "an integer", parse_int, print_int, equal_int, none_int, is_none_int, NULL},
    [MX_FIELD_FLOAT] = {"float", "a number", parse_float, print_float, equal_float, none_float, is_none_float, NULL},
    [MX_FIELD_ENUM] = {"enum", "one of", parse_enum, print_enum, equal_enum, none_enum, is_none_enum, check_enum},
    [MX_FIELD_DTYPE] = {"dtype", "an element type such as float32", parse_dtype, print_dtype, equal_enum, none_enum,
                        is_none_enum, check_dtype},
    [MX_FIELD_DIMS] = {"tuple", "a tuple of at most 16 integers", parse_dims, print_dims, equal_tuple, none_tuple, is_none_tuple, check_tuple},
    [MX_FIELD_FLOATS] = {"floats", "a tuple of at most 16 numbers", parse_floats, print_floats, equal_tuple, none_tuple, is_none_tuple,
                         check_tuple},
    [MX_FIELD_STR] = {"str", "a text", parse_str, print_str, equal_str, none_ptr, is_none_ptr, NULL},
    [MX_FIELD_CTX] = {"context", "a device such as cpu(0)", parse_ctx, print_ctx, equal_ctx, none_ctx, is_none_ctx, NULL},
    [MX_FIELD_PTR] = {"object", "an object", parse_ptr, print_ptr, equal_ptr, none_ptr, is_none_ptr, NULL},
};
