/* mx_compile_to_c: a symbol and its parameters as one C99 file.
 *
 *     values of the variables -> shapes -> shared memory -> locations -> calls -> the file, atomically
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/emit/emit.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "gluon/deploy.h"
#include "gluon/op.gen.h"
#include "gluon/sparse.h"
#include "graph/infer.h"
#include "graph/known.h"
#include "graph/symbol.h"

/* ---- values and shapes of the variables -------------------------------------------------------------------------- */

/* "arg:NAME", "aux:NAME" or "NAME" of a file; NULL: missing. */
static mx_array *find_value(const mx_array_dict *params, const char *name)
{
    static const char *const prefixes[] = {"arg:", "aux:", ""};
    char buffer[512];
    for (int i = 0; params && i < 3; i++) {
        snprintf(buffer, sizeof buffer, "%s%s", prefixes[i], name);
        mx_array *found = mx_array_dict_get(params, buffer);
        if (found)
            return mx_tostype(found, MX_STYPE_DEFAULT);
    }
    return NULL;
}

static mx_code give_shape(mx_emit *emit, int64_t i, mx_shape_t shape)
{
    for (int k = 0; k < shape.ndim; k++)
        shape.dim[k] = shape.dim[k] ? shape.dim[k] : -1;
    emit->shape[emit->graph->row[i]] = shape;
    return MX_OK;
}

static mx_code take_known(mx_emit *emit, const struct mx_known *known, bool *used)
{
    const mx_graph *g = emit->graph;
    int position = 0;
    for (int64_t i = 0; i < g->n; i++) {
        if (g->nodes[i]->op || emit->value[i])
            continue;
        for (int k = 0; k < known->count; k++)
            if (known->names ? !strcmp(known->names[k], g->nodes[i]->name) : k == position) {
                used[k] = true;
                give_shape(emit, i, mx_shape_of_dims(&known->shapes[k]));
            }
        position++;
    }
    for (int k = 0; k < known->count; k++)
        if (!used[k])
            return mx_fail(MX_ERR_ARGUMENT, "mx_compile_to_c: there is no input %s%s", known->names ? "named " : "",
                           known->names ? known->names[k] : "for one of the shapes");
    return MX_OK;
}

static mx_code infer(mx_emit *emit, const mx_array_dict *params, const struct mx_known *known)
{
    const mx_graph *g = emit->graph;
    const size_t entries = (size_t)g->row[g->n];
    int *type = mx_alloc_zero(entries * sizeof *type);
    bool *used = mx_alloc_zero(known ? (size_t)known->count + 1 : 1);
    mx_code code = type && used ? MX_OK : MX_ERR_MEMORY;
    if (!code)
        mx_graph_infer_start(g, emit->shape, type);
    for (int64_t i = 0; !code && i < g->n; i++) {
        mx_gnode *node = g->nodes[i];
        if (node->op)
            continue;
        emit->value[i] = node->value ? node->value : find_value(params, node->name);
        if (emit->value[i])
            emit->shape[g->row[i]] = mx_array_shape(emit->value[i]);
    }
    if (!code && known && known->shapes)
        code = take_known(emit, known, used);
    code = code ? code : mx_graph_infer(g, emit->shape, type);
    mx_free(type, entries * sizeof *type);
    mx_free(used, known ? (size_t)known->count + 1 : 1);
    return code;
}

/* ---- needed values and shared memory ------------------------------------------------------------------------------- */

static bool any_needed(const mx_emit *emit, int64_t i)
{
    bool needed = false;
    for (int64_t e = emit->graph->row[i]; e < emit->graph->row[i + 1]; e++)
        needed |= emit->needed[e];
    return needed;
}

/* The input number of a gamma that is fixed at 1; -1: no input is ignored. */
static int ignored_input(const mx_gnode *node)
{
    const mx_field *fixed = node->op->schema ? mx_schema_find(node->op->schema, "fix_gamma") : NULL;
    return fixed && *(const bool *)((const char *)node->attrs + fixed->offset) ? 1 : -1;
}

static mx_code refuse(const mx_gnode *node, const char *why)
{
    return mx_emit_fail(&(mx_emit_call){.name = node->name, .op = node->op}, "%s", why);
}

static mx_code need_inputs(mx_emit *emit, int64_t i)
{
    const mx_graph *g = emit->graph;
    const mx_gnode *node = g->nodes[i];
    const int64_t *in = g->in_entry + g->in_row[i];
    const mx_emission *emission = mx_emission_of(node->op);
    if (!emission)
        return refuse(node, "this operator cannot be written as C");
    if (!strcmp(node->op->name, "Dropout") && ((const mx_dropout_attrs *)node->attrs)->mode == MX_DROPOUT_ALWAYS)
        return refuse(node, "mode=always draws random numbers, which cannot be written as C");
    const int ignored = ignored_input(node);
    for (int k = 0; k < node->n_in && (!emission->reads || k < emission->reads); k++) /* -1: none */
        if (in[k] >= 0 && k != ignored)
            emit->needed[in[k]] = true;
    for (int64_t e = g->row[i] + 1; e < g->row[i + 1]; e++)
        if (emit->needed[e] && !emission->all)
            return mx_emit_fail(&(mx_emit_call){.name = node->name, .op = node->op},
                                "its output %d is used, but only the first one can be written as C",
                                (int)(e - g->row[i]));
    return MX_OK;
}

static mx_code find_needed(mx_emit *emit)
{
    const mx_graph *g = emit->graph;
    mx_code code = MX_OK;
    for (int64_t h = 0; h < g->n_results; h++)
        emit->needed[g->results[h]] = true;
    for (int64_t i = g->n - 1; !code && i >= 0; i--)
        if (g->nodes[i]->op && any_needed(emit, i))
            code = need_inputs(emit, i);
    for (int64_t i = 0; !code && i < g->n; i++) {
        char text[MX_SHAPE_TEXT];
        for (int64_t e = g->row[i]; !code && e < g->row[i + 1]; e++)
            if (emit->needed[e] && mx_shape_known(&emit->shape[e]))
                code = mx_shape_size(&emit->shape[e]) < 0 ? mx_error_code() : MX_OK;
            else if (emit->needed[e])
                return mx_fail(MX_ERR_SHAPE, "mx_compile_to_c: %s '%s' has the shape %s; give the shapes of the inputs",
                               g->nodes[i]->op ? "node" : "input", g->nodes[i]->name,
                               mx_shape_text(&emit->shape[e], text));
    }
    return code;
}

/* A weight's number is its position among the weights. */
static void give_roots(mx_emit *emit)
{
    const mx_graph *g = emit->graph;
    int64_t weights = 0;
    for (int64_t i = 0; i < g->n; i++) {
        const int64_t out = g->row[i];
        for (int64_t e = out; e < g->row[i + 1]; e++)
            emit->root[e] = e;
        if (!emit->needed[out])
            continue;
        if (!g->nodes[i]->op) {
            emit->place[out] =
                emit->value[i] ? (mx_spot){MX_SPOT_WEIGHT, weights++} : (mx_spot){MX_SPOT_INPUT, emit->inputs};
            emit->inputs += emit->value[i] ? 0 : mx_shape_size(&emit->shape[out]);
        } else if (!mx_emission_of(g->nodes[i]->op)->write)
            emit->root[out] = emit->root[g->in_entry[g->in_row[i]]];
    }
}

/* ---- the calls ------------------------------------------------------------------------------------------------- */

/* Node names must not end the comment: marks of comments in them are replaced. */
static void add_comment(mx_text *text, const char *comment)
{
    for (; *comment; comment++)
        mx_text_add_char(text, (comment[0] == '*' && comment[1] == '/') || (comment[0] == '/' && comment[1] == '*') ||
                                       (unsigned char)*comment < ' '
                                   ? '_'
                                   : *comment);
}

static mx_code write_node(mx_emit *emit, int64_t i)
{
    const mx_gnode *node = emit->graph->nodes[i];
    const mx_emission *emission = mx_emission_of(node->op);
    const mx_shape_t *y = &emit->shape[emit->graph->row[i]];
    char text[MX_SHAPE_TEXT];
    if (!any_needed(emit, i) || !emission->write || !mx_shape_size(y))
        return MX_OK;
    mx_text_add(&emit->file.body, "    /* ");
    add_comment(&emit->file.body, node->name);
    mx_text_print(&emit->file.body, " %s */\n", mx_shape_text(y, text));
    mx_emit_call call;
    mx_code code = mx_emit_call_make(emit, i, &call);
    code = code ? code : emission->write(&call);
    mx_emit_call_free(&call);
    return code;
}

static mx_code write_calls(mx_emit *emit)
{
    const mx_graph *g = emit->graph;
    mx_code code = MX_OK;
    int64_t at = 0;
    char from[48];
    for (int64_t i = 0; !code && i < g->n; i++)
        if (g->nodes[i]->op)
            code = write_node(emit, i);
    for (int64_t h = 0; !code && h < g->n_results; h++) {
        const mx_spot *p = &emit->place[emit->root[g->results[h]]];
        const int64_t size = mx_shape_size(&emit->shape[g->results[h]]);
        if (p->kind != MX_SPOT_OUTPUT || p->number != at) {
            mx_emit_use(&(mx_emit_call){.file = &emit->file}, "copy");
            mx_text_print(&emit->file.body, "    copy(%s, out + %lld, %lld);\n", mx_emit_at(emit, g->results[h], from),
                          (long long)at, (long long)size);
        }
        at += size;
    }
    return code ? code : emit->file.body.failed || emit->file.kernels.failed ? MX_ERR_MEMORY : MX_OK;
}

/* ---- the file -------------------------------------------------------------------------------------------------- */

static void put(mx_writer *writer, mx_text *text)
{
    if (text->failed)
        writer->failed = true;
    else
        mx_writer_put(writer, text->data ? text->data : "", text->length);
    mx_text_clear(text);
}

static bool is_weight(const mx_emit *emit, int64_t i)
{
    return !emit->graph->nodes[i]->op && emit->place[emit->graph->row[i]].kind == MX_SPOT_WEIGHT;
}

/* "static const float w3[150]" */
static void name_weight(mx_text *text, const mx_emit *emit, int64_t i)
{
    const int64_t size = emit->value[i]->size;
    mx_text_print(text, "static const float w%lld[%lld]", (long long)emit->place[emit->graph->row[i]].number,
                  (long long)(size ? size : 1));
}

/* The code is first and the numbers, which no one reads, are at the end of the file. */
static void declare_weight(mx_text *text, const mx_emit *emit, int64_t i)
{
    char shape[MX_SHAPE_TEXT];
    if (!is_weight(emit, i))
        return;
    name_weight(text, emit, i);
    mx_text_add(text, "; /* ");
    add_comment(text, emit->graph->nodes[i]->name);
    mx_text_print(text, " %s */\n", mx_shape_text(&emit->shape[emit->graph->row[i]], shape));
}

static void put_weight(mx_writer *writer, mx_text *text, const mx_emit *emit, int64_t i)
{
    mx_array *value = emit->value[i];
    const int64_t size = value->size;
    double *numbers = mx_alloc((size_t)size * sizeof *numbers + 1);
    if (!numbers || (size && mx_array_read_doubles(value, numbers, size)))
        writer->failed = true;
    mx_text_add(text, "\n");
    name_weight(text, emit, i);
    mx_text_add(text, " = {");
    for (int64_t k = 0; k < size && !writer->failed; k++) {
        mx_text_add(text, k % 8 ? ", " : k ? ",\n    " : "\n    ");
        mx_emit_float(text, numbers[k]);
        if (text->length > 65536)
            put(writer, text);
    }
    mx_text_add(text, size ? "\n};\n" : "0};\n");
    put(writer, text);
    mx_free(numbers, (size_t)size * sizeof *numbers + 1);
}

static void upper_case(const char *name, char *out, size_t room)
{
    size_t i = 0;
    for (; name[i] && i + 1 < room; i++)
        out[i] = (char)toupper((unsigned char)name[i]);
    out[i] = 0;
}

/* The layout of the caller's arrays, as a comment. */
static void add_layout(mx_text *text, const mx_emit *emit)
{
    const mx_graph *g = emit->graph;
    char shape[MX_SHAPE_TEXT];
    for (int64_t i = 0; i < g->n; i++) {
        const int64_t e = g->row[i];
        if (g->nodes[i]->op || emit->place[e].kind != MX_SPOT_INPUT)
            continue;
        mx_text_print(text, " *     in + %lld: ", (long long)emit->place[e].number);
        add_comment(text, g->nodes[i]->name);
        mx_text_print(text, " %s\n", mx_shape_text(&emit->shape[e], shape));
    }
    for (int64_t h = 0, at = 0; h < g->n_results; at += mx_shape_size(&emit->shape[g->results[h]]), h++) {
        mx_text_print(text, " *     out + %lld: ", (long long)at);
        add_comment(text, g->nodes[mx_graph_node_of(g, g->results[h])]->name);
        mx_text_print(text, " %s\n", mx_shape_text(&emit->shape[g->results[h]], shape));
    }
}

static void put_head(mx_writer *writer, mx_text *text, const mx_emit *emit, const char *big)
{
    const char *s = emit->name;
    mx_text_print(text, "/* A neural network, written by gluon %s.\n *\n", mx_version());
    mx_text_print(text, " *     int %s_run(const float *in, float *out);                    0: success\n", s);
    mx_text_print(
        text,
        " *     int %s_run_in(const float *in, float *out, float *arena);   the same for several threads, each\n"
        " *                                                     with its own %s_ARENA numbers\n *\n",
        s, big);
    add_layout(text, emit);
    mx_text_print(
        text, " *\n *     cc -O2 %s.c -lm                    a program: float32 values from stdin, results as text\n",
        s);
    mx_text_print(text, " *     cc -O2 -D%s_NO_MAIN -c %s.c        a part of another program\n */\n", big, s);
    mx_text_print(text, "#include <math.h>\n#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n\n");
    mx_text_print(text,
                  "#define %s_INPUT %lld   /* numbers in `in` */\n#define %s_OUTPUT %lld  /* numbers in `out` */\n"
                  "#define %s_ARENA %lld   /* intermediate numbers */\n\n",
                  big, (long long)emit->inputs, big, (long long)emit->outputs, big,
                  (long long)(emit->arena ? emit->arena : 1));
    mx_text_print(
        text, "int %s_run_in(const float *in, float *out, float *arena);\nint %s_run(const float *in, float *out);\n\n",
        s, s);
    put(writer, text);
}

static void put_kernels(mx_writer *writer, mx_text *text, mx_emit *emit)
{
    const char *code;
    for (int i = 0; (code = mx_emit_kernel(&emit->file, i)); i++)
        if (*code)
            mx_text_print(text, "\n%s", code);
    put(writer, text);
    if (emit->file.kernels.length)
        mx_text_add(text, "\n");
    put(writer, text);
    put(writer, &emit->file.kernels);
}

static void put_run(mx_writer *writer, mx_text *text, mx_emit *emit, const char *big)
{
    const char *s = emit->name;
    mx_text_print(text,
                  "\nint %s_run_in(const float *in, float *out, float *arena)\n{\n"
                  "    if (!in || !out || !arena)\n        return -1;\n",
                  s);
    put(writer, text);
    put(writer, &emit->file.body);
    mx_text_print(text,
                  "    return 0;\n}\n\n/* Not thread-safe. */\n"
                  "int %s_run(const float *in, float *out)\n{\n    static float arena[%s_ARENA];\n"
                  "    return %s_run_in(in, out, arena);\n}\n",
                  s, big, s);
    mx_text_print(text,
                  "\n#ifndef %s_NO_MAIN\nint main(void)\n{\n    static float in[%s_INPUT + 1], out[%s_OUTPUT + 1];\n"
                  "    if (fread(in, sizeof *in, %s_INPUT, stdin) != %s_INPUT) {\n"
                  "        fprintf(stderr, \"%s: wanted %%d float32 values on stdin\\n\", %s_INPUT);\n"
                  "        return 1;\n    }\n    if (%s_run(in, out))\n        return 1;\n"
                  "    for (long i = 0; i < %s_OUTPUT; i++)\n        printf(\"%%.9g\\n\", (double)out[i]);\n"
                  "    return 0;\n}\n#endif\n",
                  big, big, big, big, big, s, big, s, big);
    put(writer, text);
}

static mx_code write_file(mx_emit *emit, const char *path)
{
    mx_writer writer;
    mx_text text = {0};
    char big[80];
    upper_case(emit->name, big, sizeof big);
    if (!mx_writer_open(&writer, path))
        return mx_error_code();
    put_head(&writer, &text, emit, big);
    for (int64_t i = 0; i < emit->graph->n; i++)
        declare_weight(&text, emit, i);
    put_kernels(&writer, &text, emit);
    put_run(&writer, &text, emit, big);
    for (int64_t i = 0; i < emit->graph->n; i++)
        if (is_weight(emit, i))
            put_weight(&writer, &text, emit, i);
    mx_text_free(&text);
    return mx_writer_commit(&writer) ? MX_OK : mx_error_code();
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static mx_code check_name(const char *name)
{
    const size_t length = name ? strlen(name) : 0;
    bool fine = length > 0 && length < 64 && !isdigit((unsigned char)name[0]);
    for (size_t i = 0; fine && i < length; i++)
        fine = isalnum((unsigned char)name[i]) || name[i] == '_';
    return fine ? MX_OK
                : mx_fail(MX_ERR_ARGUMENT,
                          "mx_compile_to_c: '%s' is not a name for a C function; wanted letters, digits "
                          "and _, 63 at most",
                          name ? name : "NULL");
}

static mx_code run(mx_emit *emit, const mx_array_dict *params, const struct mx_known *inputs, const char *path)
{
    const mx_graph *g = emit->graph;
    const size_t entries = (size_t)g->row[g->n];
    emit->shape = mx_alloc_zero(entries * sizeof *emit->shape);
    emit->value = mx_alloc_zero((size_t)g->n * sizeof *emit->value);
    emit->root = mx_alloc_zero(entries * sizeof *emit->root);
    emit->needed = mx_alloc_zero(entries);
    emit->place = mx_alloc_zero(entries * sizeof *emit->place);
    emit->scratch = mx_alloc_zero((size_t)g->n * sizeof *emit->scratch);
    mx_code code = emit->shape && emit->value && emit->root && emit->needed && emit->place && emit->scratch
                       ? MX_OK
                       : MX_ERR_MEMORY;
    code = code ? code : infer(emit, params, inputs);
    code = code ? code : find_needed(emit);
    if (!code)
        give_roots(emit);
    code = code ? code : mx_emit_place(emit);
    code = code ? code : write_calls(emit);
    code = code ? code : write_file(emit, path);
    mx_free(emit->shape, entries * sizeof *emit->shape);
    mx_free(emit->value, (size_t)g->n * sizeof *emit->value);
    mx_free(emit->root, entries * sizeof *emit->root);
    mx_free(emit->needed, entries);
    mx_free(emit->place, entries * sizeof *emit->place);
    mx_free(emit->scratch, (size_t)g->n * sizeof *emit->scratch);
    return code;
}

mx_code mx_compile_to_c(const mx_symbol *symbol, const mx_array_dict *params, const struct mx_known *inputs,
                        const char *path, const char *name)
{
    MX_SCOPE;
    if (!mx_symbol_ok(symbol, "mx_compile_to_c") || check_name(name) || mx_known_check(inputs, "mx_compile_to_c"))
        return mx_error_code();
    if (!path)
        return mx_fail(MX_ERR_ARGUMENT, "mx_compile_to_c: path is NULL");
    mx_graph graph = {0};
    mx_emit emit = {.name = name, .graph = &graph};
    mx_code code = mx_graph_of(&graph, symbol->n, symbol->outputs);
    code = code ? code : run(&emit, params, inputs, path);
    mx_text_free(&emit.file.body);
    mx_text_free(&emit.file.kernels);
    mx_dict_free(&emit.file.used);
    mx_dict_free(&emit.file.made);
    mx_graph_free(&graph);
    return code;
}
