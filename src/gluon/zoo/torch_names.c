/* From a parameter of ours to its name in PyTorch's and Keras' files: matching the entries of torch_tables.c and
 * keras_tables.c (see torch.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "gluon/zoo/torch.h"

enum { MOST_NUMBERS = 4 };

/* ---- patterns ---------------------------------------------------------------------------------------------------- */

/* # is a number, * the rest or anything before what follows; the numbers go to `found` if it is not NULL. */
static bool matches(const char *pattern, const char *text, int64_t *found)
{
    for (; *pattern; pattern++) {
        if (*pattern == '*') {
            for (const char *p = text; *p; p++)
                if (matches(pattern + 1, p, found))
                    return true;
            return !pattern[1];
        }
        if (*pattern != '#') {
            if (*text++ != *pattern)
                return false;
            continue;
        }
        if (!isdigit((unsigned char)*text))
            return false;
        int64_t number = 0;
        for (int digits = 0; isdigit((unsigned char)*text) && digits < 9; digits++)
            number = number * 10 + (*text++ - '0');
        if (found)
            *found++ = number;
    }
    return !*text;
}

/* "{b+2/3}" from the letter on: (b + 2) / 3; *p ends behind the brace. */
static int64_t compute(const char **p, const int64_t *numbers, int64_t k)
{
    int64_t value = **p == 'k' ? k : numbers[**p - 'a'];
    for ((*p)++; **p && **p != '}';) {
        const char sign = *(*p)++;
        int64_t operand = 0;
        while (isdigit((unsigned char)**p))
            operand = operand * 10 + (*(*p)++ - '0');
        value = sign == '+'   ? value + operand
                : sign == '-' ? value - operand
                : sign == '*' ? value * operand
                : sign == '%' ? value % operand
                              : value / operand;
    }
    (*p)++;
    return value;
}

static void add_name(mx_text *text, const char *theirs, const int64_t *numbers, int64_t k)
{
    for (const char *p = theirs; *p;) {
        if (*p == '{') {
            p++;
            mx_text_print(text, "%lld", (long long)compute(&p, numbers, k));
        } else
            mx_text_print(text, "%c", *p++);
    }
}

bool mx_torch_is_unused(const mx_torch_table *table, const char *name)
{
    for (const char *const *p = table->unused; *p; p++)
        if (matches(*p, name, NULL))
            return true;
    return false;
}

const char *mx_torch_strip(const mx_torch_table *table, const char *name)
{
    for (const char *const *p = table->prefixes; *p; p++)
        if (!strncmp(name, *p, strlen(*p)))
            return mx_torch_strip(table, name + strlen(*p));
    return name;
}

const mx_torch_table *mx_torch_table_of(const char *class_name)
{
    mx_text names = {0};
    for (const mx_torch_table *t = mx_torch_tables; t->class; t++) {
        if (class_name && !strcmp(t->class, class_name)) {
            mx_text_free(&names);
            return t;
        }
        mx_text_print(&names, "%s%s", names.data ? ", " : "", t->class);
    }
    mx_fail(MX_ERR_ARGUMENT, "PyTorch's names are known for networks of the classes %s, not for %s",
            names.data ? names.data : "", class_name ? class_name : "a block of your own");
    mx_text_free(&names);
    return NULL;
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

static const struct {
    const char *ours, *theirs;
    bool norm;
} attributes[] = {{"weight", "weight", false},
                  {"bias", "bias", false},
                  {"gamma", "weight", true},
                  {"beta", "bias", true},
                  {"running_mean", "running_mean", true},
                  {"running_var", "running_var", true}};
enum { ATTRIBUTES = sizeof attributes / sizeof *attributes };

/* What one entry has matched so far. */
typedef struct progress {
    const char *layer; /* the last one: part of a name of the listing; NULL: none */
    size_t length;
    int64_t layers; /* how many before it */
} progress;

static bool same_layer(const progress *p, const char *layer, size_t length)
{
    return p->layer && p->length == length && !memcmp(p->layer, layer, length);
}

/* Whether the entry may take one more layer, or has taken this one. */
static bool has_room(const mx_torch_row *row, const progress *p, const char *layer, size_t length)
{
    return !row->most || same_layer(p, layer, length) || (p->layer ? p->layers + 1 : 0) < row->most;
}

static void take_layer(progress *p, const char *layer, size_t length)
{
    if (same_layer(p, layer, length))
        return;
    p->layers += p->layer ? 1 : 0;
    p->layer = layer, p->length = length;
}

/* The axes of a layer's weight: a bias belongs to the weight before it. */
static int weight_rank(const mx_listing *l, int64_t i, size_t layer)
{
    if (i && !strcmp(l->names.items[i] + layer, ".bias") &&
        !strncmp(l->names.items[i], l->names.items[i - 1], layer + 1))
        i--;
    return l->params.items[i]->shape.ndim;
}

static const mx_torch_row *find_row(const mx_torch_table *table, const mx_listing *l, int64_t i, size_t layer,
                                    bool norm, progress *all, int64_t *numbers)
{
    char path[256];
    const char *name = l->names.items[i];
    if (layer >= sizeof path)
        return NULL;
    memcpy(path, name, layer), path[layer] = 0;
    for (const mx_torch_row *row = table->rows; row->ours; row++)
        if (row->norm == norm && matches(row->ours, path, numbers) &&
            has_room(row, &all[row - table->rows], name, layer) &&
            (!row->rank || row->rank == weight_rank(l, i, layer)))
            return row;
    return NULL;
}

static mx_code place_one(const mx_torch_table *table, const mx_listing *l, int64_t i, progress *all,
                         mx_torch_place *place)
{
    int64_t numbers[MOST_NUMBERS] = {0};
    const char *name = l->names.items[i], *dot = strrchr(name, '.');
    const size_t layer = dot ? (size_t)(dot - name) : 0;
    for (int k = 0; dot && k < ATTRIBUTES; k++) {
        if (strcmp(attributes[k].ours, dot + 1))
            continue;
        const mx_torch_row *row = find_row(table, l, i, layer, attributes[k].norm, all, numbers);
        if (!row)
            continue;
        progress *p = &all[row - table->rows];
        mx_text text = {0};
        take_layer(p, name, layer);
        add_name(&text, row->theirs, numbers, p->layers);
        mx_text_print(&text, ".%s", attributes[k].theirs);
        *place = (mx_torch_place){mx_text_take(&text), row->layout};
        return place->name ? MX_OK : mx_error_code();
    }
    return mx_fail(MX_ERR_PARAMETER, "%s: parameter '%s' has no counterpart in the other network", table->class, name);
}

mx_torch_place *mx_torch_places(const mx_torch_table *table, const mx_listing *l)
{
    int64_t rows = 0;
    while (table->rows[rows].ours)
        rows++;
    progress *all = mx_alloc_zero((size_t)rows * sizeof *all);
    mx_torch_place *places = mx_alloc_zero((size_t)(l->names.length + 1) * sizeof *places);
    bool ok = all && places;
    for (int64_t i = 0; ok && i < l->names.length; i++)
        ok = !place_one(table, l, i, all, &places[i]);
    mx_free(all, (size_t)rows * sizeof *all);
    if (!ok)
        mx_torch_places_free(places, l->names.length);
    return ok ? places : NULL;
}

void mx_torch_places_free(mx_torch_place *places, int64_t count)
{
    for (int64_t i = 0; places && i < count; i++)
        mx_strfree(places[i].name);
    mx_free(places, (size_t)(count + 1) * sizeof *places);
}
