/* Text of a network that is written as C: places, numbers, openings of calls.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gluon/emit/emit.h"

const char *mx_emit_at(const mx_emit *emit, int64_t entry, char *buffer)
{
    static const char *const base[] = {"NULL", "w", "in", "out", "arena"};
    const mx_spot *p = &emit->place[emit->root[entry]];
    if (p->kind == MX_SPOT_WEIGHT)
        snprintf(buffer, 48, "w%lld", (long long)p->number);
    else if (p->kind == MX_SPOT_NONE)
        snprintf(buffer, 48, "NULL");
    else
        snprintf(buffer, 48, "%s + %lld", base[p->kind], (long long)p->number);
    return buffer;
}

void mx_emit_float(mx_text *text, double value)
{
    char buffer[40];
    value = (float)value;
    if (value != value || value - value != 0) {
        mx_text_add(text, value != value ? "NAN" : value > 0 ? "INFINITY" : "-INFINITY");
        return;
    }
    snprintf(buffer, sizeof buffer, "%.9g", value);
    for (char *p = buffer; *p; p++)
        *p = *p == ',' ? '.' : *p; /* some locales */
    mx_text_print(text, "%s%sf", buffer, strpbrk(buffer, ".e") ? "" : ".0");
}

void mx_emit_longs(mx_text *text, int n, const int64_t *numbers)
{
    mx_text_add(text, "(const long[]){");
    for (int i = 0; i < n; i++)
        mx_text_print(text, "%s%lld", i ? ", " : "", (long long)numbers[i]);
    mx_text_add(text, n ? "}" : "0}");
}

void mx_emit_open(const mx_emit_node *n, const char *kernel, int count)
{
    char at[48];
    mx_emit_use(n->emit, kernel);
    mx_text_print(&n->emit->body, "    %s(", kernel);
    for (int i = 0; i < count; i++)
        mx_text_print(&n->emit->body, "%s, ", mx_emit_at(n->emit, n->in[i], at));
    mx_text_print(&n->emit->body, "%s, ", mx_emit_at(n->emit, n->out, at));
}

mx_code mx_emit_fail(const mx_emit_node *n, const char *format, ...)
{
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return mx_fail(MX_ERR_UNSUPPORTED, "mx_compile_to_c: node '%s' (%s): %s", n->node->name, n->node->op->name, text);
}

void mx_emit_add(const mx_emit_node *n, double value)
{
    mx_text_add(mx_emit_body(n), ", ");
    mx_emit_float(mx_emit_body(n), value);
}

const char *mx_emit_or_null(const mx_emit_node *n, int i, char *buffer)
{
    return i < n->node->n_in && n->in[i] >= 0 ? mx_emit_at(n->emit, n->in[i], buffer) : "NULL";
}

void mx_emit_split(const mx_emit_node *n, mx_split s)
{
    mx_text_print(mx_emit_body(n), "%lld, %lld, %lld", (long long)s.before, (long long)s.size, (long long)s.after);
}

mx_code mx_emit_close(const mx_emit_node *n)
{
    mx_text_add(mx_emit_body(n), ");\n");
    return MX_OK;
}
