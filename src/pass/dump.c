/* Programs as text and as DOT.  SPDX-License-Identifier: Apache-2.0 */
#include "pass/passes.h"

static void add_value(const mx_program *program, int32_t v, mx_text *text)
{
    char shape[MX_SHAPE_TEXT];
    if (v < 0) {
        mx_text_add(text, "-");
        return;
    }
    const mx_value *value = &program->values.items[v];
    mx_text_print(text, "v%d:%s%s", v, mx_dtype_name((mx_dtype)value->dtype), mx_shape_text(&value->shape, shape));
}

static void add_list(const mx_program *program, int32_t n, const int32_t *list, mx_text *text)
{
    for (int32_t k = 0; k < n; k++) {
        mx_text_add(text, k ? ", " : "");
        add_value(program, list[k], text);
    }
}

static const char *const kinds[] = {"input", "parameter", "constant", "state"};

void mx_program_text(const mx_program *program, mx_text *text)
{
    for (int64_t e = 0; e < program->externals.length; e++) {
        const mx_external *x = &program->externals.items[e];
        add_value(program, x->value, text);
        mx_text_print(text, " = %s %lld%s\n", kinds[x->kind], (long long)x->index, x->written ? ", written" : "");
    }
    for (int64_t i = 0; i < program->steps.length; i++) {
        const mx_step *step = &program->steps.items[i];
        if (i == program->prepared && i)
            mx_text_add(text, "---- end of prepared steps\n");
        if (i == program->forward)
            mx_text_add(text, "---- backward\n");
        add_list(program, step->n_out, step->out, text);
        mx_text_print(text, " = %s(", step->op->name);
        add_list(program, step->n_in, step->in, text);
        mx_text_print(text, ")  # %s\n", step->name);
    }
    mx_text_add(text, "give ");
    add_list(program, (int32_t)program->results.length, program->results.items, text);
    mx_text_add(text, "\n");
}

void mx_program_dot(const mx_program *program, mx_text *text)
{
    char shape[MX_SHAPE_TEXT];
    mx_text_add(text, "digraph plan {\n  node [shape=box];\n");
    for (int64_t e = 0; e < program->externals.length; e++) {
        const mx_external *x = &program->externals.items[e];
        mx_text_print(text, "  v%d [label=\"%s %lld\", shape=ellipse];\n", x->value, kinds[x->kind],
                      (long long)x->index);
    }
    for (int64_t i = 0; i < program->steps.length; i++) {
        const mx_step *step = &program->steps.items[i];
        mx_text_print(text, "  s%lld [label=\"%s\\n%s\"%s];\n", (long long)i, step->op->name, step->name,
                      i < program->forward ? "" : ", style=dashed");
        for (int k = 0; k < step->n_in; k++) {
            const mx_value *v = step->in[k] < 0 ? NULL : &program->values.items[step->in[k]];
            if (v && v->maker >= 0)
                mx_text_print(text, "  s%d -> s%lld [label=\"%s\"];\n", v->maker, (long long)i,
                              mx_shape_text(&v->shape, shape));
            else if (v)
                mx_text_print(text, "  v%d -> s%lld [label=\"%s\"];\n", step->in[k], (long long)i,
                              mx_shape_text(&v->shape, shape));
        }
    }
    mx_text_add(text, "}\n");
}
