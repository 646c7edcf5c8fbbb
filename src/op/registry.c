/* The registry: every operator of op/def, found by name or alias.
 *
 * It is filled once, at the first lookup, from the generated list of families; after that it is read-only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/blame.h"
#include "base/dict.h"
#include "base/error.h"
#include "base/suggest.h"
#include "base/vec.h"
#include "op/formula/movement.h"
#include "op/op.h"

static mx_dict by_name;     /* names and aliases -> mx_op */
static MX_VEC(mx_op *) ops; /* in order of registration */
static pthread_once_t filled = PTHREAD_ONCE_INIT;

static int count_words(const char *text)
{
    int n = 0;
    for (const char *p = text ? text : ""; *(p += strspn(p, " ")); p += strcspn(p, " "))
        n++;
    return n;
}

static bool add_aliases(mx_op *op)
{
    char name[128];
    for (const char *p = op->aliases ? op->aliases : ""; *(p += strspn(p, " ")); p += strcspn(p, " ")) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, " "), p);
        if (!mx_dict_set(&by_name, name, op))
            return false;
    }
    return true;
}

static bool add_op(mx_op *op)
{
    if (mx_dict_find(&by_name, op->name)) {
        mx_fail(MX_ERR_STATE, "operator %s is registered twice", op->name);
        return false;
    }
    op->id = (int)ops.length;
    op->declared_inputs = count_words(op->inputs);
    op->n_out = op->n_out ? op->n_out : 1;
    op->n_visible = op->n_visible ? op->n_visible : op->n_out;
    if (op->schema) {
        mx_schema_layout(op->schema);
        op->defaults = mx_alloc_zero(op->schema->size);
        if (!op->defaults)
            return false;
        mx_schema_defaults(op->schema, op->defaults);
    }
    return mx_vec_push(&ops, op) && mx_dict_set(&by_name, op->name, op) && add_aliases(op);
}

static void fill(void)
{
    for (mx_op *const *family = mx_op_families; *family; family++)
        for (mx_op *op = *family; op->name; op++)
            if (!add_op(op))
                return; /* out of memory: the error is recorded */
}

mx_op *mx_op_find(const char *name)
{
    pthread_once(&filled, fill);
    mx_op *op = name ? mx_dict_get(&by_name, name) : NULL;
    if (op)
        return op;
    mx_suggestion s = {.word = name};
    for (int64_t i = 0; i < by_name.length; i++)
        mx_suggest(&s, by_name.entries[i].key);
    return mx_fail_null(MX_ERR_ARGUMENT, "there is no operator named '%s'%s", name ? name : "NULL",
                        mx_suggest_text(&s));
}

mx_op *mx_op_at(int i)
{
    pthread_once(&filled, fill);
    return i >= 0 && i < ops.length ? ops.items[i] : NULL;
}

const char *mx_op_name(const mx_op *op) { return op ? op->name : "NULL"; }

static void attach(mx_op *op, mx_device_type device, const mx_kernel *kernel)
{
    for (int i = 0; op && i < MX_MAX_KERNELS - 1; i++)
        if (!op->kernels[device][i]) {
            op->kernels[device][i] = kernel;
            return;
        }
}

void mx_op_attach(mx_device_type device, const mx_kernel *kernel)
{
    if (strcmp(kernel->op, MX_ALL_MOVEMENTS)) {
        attach(mx_op_find(kernel->op), device, kernel);
        return;
    }
    for (int i = 0; mx_op_at(i); i++)
        if (mx_op_at(i)->movement)
            attach(mx_op_at(i), device, kernel);
}

void mx_op_attach_many(mx_device_type device, const char *name, mx_many_fn many)
{
    mx_op *op = mx_op_find(name);
    if (op)
        op->many[device] = many;
}

int mx_op_count_out(const mx_op *op, const void *attrs) { return op->count_out ? op->count_out(attrs) : op->n_out; }

int mx_op_count_visible(const mx_op *op, const void *attrs)
{
    if (op->count_visible)
        return op->count_visible(attrs);
    return op->count_out ? op->count_out(attrs) : op->n_visible;
}

bool mx_op_reads_head(const mx_op *op, const void *attrs, int output)
{
    if (op->flags & MX_OP_ZERO_GRADIENT)
        return false;
    return !op->reads_head || op->reads_head(attrs ? attrs : op->defaults, output);
}

bool mx_reads_no_head(const void *attrs, int output)
{
    (void)attrs, (void)output;
    return false;
}

/* ---- names of arguments --------------------------------------------------------------------------------- */

static const char *word(const char *text, int i, int *length)
{
    const char *p = text + strspn(text, " ");
    for (; i > 0 && *p; i--) {
        p += strcspn(p, " ");
        p += strspn(p, " ");
    }
    *length = (int)strcspn(p, " ");
    return *length ? p : NULL;
}

const char *mx_op_input_name(const mx_op *op, int i, char *buffer)
{
    int length, last = op->declared_inputs - 1;
    const char *name = word(op->inputs ? op->inputs : "", i < last ? i : last < 0 ? 0 : last, &length);
    if (!name)
        snprintf(buffer, 64, "input %d", i);
    else if (*name == '*')
        snprintf(buffer, 64, "%.*s%d", length - 1, name + 1, i - last);
    else
        snprintf(buffer, 64, "%.*s", name[length - 1] == '?' ? length - 1 : length, name);
    return buffer;
}

bool mx_op_input_optional(const mx_op *op, int i)
{
    int length;
    const char *name = i < op->declared_inputs ? word(op->inputs, i, &length) : NULL;
    return name && name[length - 1] == '?';
}

const char *mx_op_output_name(const mx_op *op, int i, char *buffer)
{
    int length;
    const char *name = op->outputs ? word(op->outputs, i, &length) : NULL;
    if (name)
        snprintf(buffer, 64, "%.*s", length, name);
    else if (op->n_out == 1 && !op->count_out)
        snprintf(buffer, 64, "output");
    else
        snprintf(buffer, 64, "output%d", i);
    return buffer;
}

mx_code mx_op_fail(const mx_op *op, mx_code code, const char *format, ...)
{
    char message[768];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return mx_context_speaks() ? mx_fail(code, "%s", message) : mx_fail(code, "%s: %s", op->name, message);
}
