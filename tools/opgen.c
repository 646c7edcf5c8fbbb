/* Writes the C functions of all operators from the registry: `opgen header FILE` and `opgen source FILE`.
 *
 * It is built twice: opgen writes op.gen.h, npgen (-DNP) np.gen.h, the functions with NumPy's rules.  So a new function
 * of NumPy recompiles no kernel.
 *
 * For softmax(data, axis=-1) the header contains
 *
 *     typedef struct mx_softmax_attrs { int64_t axis; } mx_softmax_attrs;
 *     struct mx_softmax_args { int64_t axis; char positional_; mx_array *data; mx_array *out; };
 *     #define mx_softmax(...) mx_softmax_call(&(struct mx_softmax_args){.axis = -1, .positional_ = 0, __VA_ARGS__})
 *
 * A positional initialiser continues after the last designator, so mx_softmax(x, .axis = 0) sets data, then axis.  The number
 * of an operator on an array and a number is positional, too: mx_plus_scalar(x, 3).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cgen.h"
#include "op/expand.h"

#ifdef NP
#define NAME "np"
#define GUARD "GLUON_NP_GEN_H"
static const bool np = true;
#else
#define NAME "op"
#define GUARD "GLUON_OP_GEN_H"
static const bool np = false;
#endif
static bool is_ours(const mx_op *op) { return mx_op_expands(op) == np; }

/* Gradients are compositions that call mx_invoke; nothing is computed here. */
mx_code mx_invoke(mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out, mx_array **out)
{
    return (void)op, (void)attrs, (void)n_in, (void)in, (void)n_out, (void)out, MX_ERR_UNSUPPORTED;
}
static mx_device none = {.name = "none"};
mx_device *const mx_cpu_device = &none;

static bool is_list(const mx_op *op) { return op->flags & MX_OP_LIST; }
static bool returns_list(const mx_op *op) { return op->count_out || op->n_visible > 1; }
static bool has_all_form(const mx_op *op) { return op->count_visible && !returns_list(op); }

static const char *c_name(const mx_op *op)
{
    static char name[128];
    if (op->c_name)
        return op->c_name;
    snake_case(op->name, name, sizeof name);
    return name;
}

/* ---- attribute structs ------------------------------------------------------------------------------------ */

static bool written_before(const mx_op *op, bool (*same)(const mx_op *a, const mx_op *b))
{
    for (int i = 0; i < op->id; i++)
        if (same(mx_op_at(i), op))
            return true;
    return false;
}
static bool same_schema(const mx_op *a, const mx_op *b)
{
    return a->schema && !strcmp(a->schema->name, b->schema->name);
}

static const char *upper(const char *text)
{
    static char buffer[128];
    size_t n = 0;
    for (; text[n] && n < sizeof buffer - 1; n++)
        buffer[n] = isalnum((unsigned char)text[n]) ? (char)toupper((unsigned char)text[n]) : '_';
    buffer[n] = 0;
    return buffer;
}

/* Names of the choices: MX_<SCHEMA>_<CHOICE>. A choice that two fields share is written once. */
static void write_enums(const mx_schema *schema)
{
    char choice[64], names[64][64];
    int known = 0;
    for (int i = 0; i < schema->count; i++) {
        const mx_field *f = &schema->fields[i];
        for (int k = 0; f->type == MX_FIELD_ENUM && mx_rule_choice(f->rule, k, choice); k++) {
            bool seen = false;
            for (int n = 0; n < known; n++)
                seen |= !strcmp(names[n], choice);
            if (seen)
                continue;
            if (known < 64)
                strcpy(names[known++], choice);
            fprintf(file, "#define MX_%s_", upper(schema->name));
            fprintf(file, "%s %d /* .%s */\n", upper(choice), k, f->name);
        }
    }
}

static void write_schema(const mx_op *op)
{
    if (!op->schema || written_before(op, same_schema))
        return;
    fprintf(file, "\ntypedef struct mx_%s_attrs {\n", op->schema->name);
    write_fields(op->schema);
    fprintf(file, "} mx_%s_attrs;\n", op->schema->name);
    write_enums(op->schema);
}

/* ---- calls ------------------------------------------------------------------------------------------------ */

/* An input with the name of an attribute gets the suffix _in. */
static const char *input_field(const mx_op *op, int i)
{
    static char name[80];
    char plain[64];
    mx_op_input_name(op, i, plain);
    if (is_list(op) && i == op->declared_inputs - 1)
        plain[strlen(plain) - 1] = 0; /* "data0" -> "data" */
    snprintf(name, sizeof name, "%s%s", plain, mx_schema_find(op->schema, plain) ? "_in" : "");
    return name;
}

/* The first attribute is the second operand. */
static bool has_number(const mx_op *op)
{
    return op->schema && !strcmp(op->schema->fields[0].name, "scalar") && op->declared_inputs == 1;
}

static void write_args(const mx_op *op, const char *name)
{
    fprintf(file, "struct mx_%s_args {\n", name);
    for (int i = has_number(op); op->schema && i < op->schema->count; i++)
        write_field(&op->schema->fields[i]);
    fprintf(file, "    char positional_;\n");
    for (int i = 0; i < op->declared_inputs; i++)
        fprintf(file, "    %s%s;\n", is_list(op) && i == op->declared_inputs - 1 ? "mx_arrays " : "mx_array *",
                input_field(op, i));
    if (has_number(op))
        write_field(&op->schema->fields[0]);
    fprintf(file, "    %sout; /* where to write; not given: a new array */\n};\n",
            returns_list(op) ? "mx_arrays " : "mx_array *");
}

static void write_macro(const mx_op *op, const char *name, const char *suffix)
{
    fprintf(file, "#define mx_%s%s(...) mx_%s%s_call(&(struct mx_%s_args){", name, suffix, name, suffix, name);
    for (int i = 0; op->schema && i < op->schema->count; i++) {
        fprintf(file, ".%s = ", op->schema->fields[i].name);
        write_default(&op->schema->fields[i], op->defaults);
        fprintf(file, ", ");
    }
    for (int i = 0; i < op->declared_inputs; i++)
        if (mx_op_input_optional(op, i))
            fprintf(file, ".%s = MX_NONE, ", input_field(op, i));
    fprintf(file, ".positional_ = 0, __VA_ARGS__})\n");
}

static void write_function(const mx_op *op)
{
    char name[128];
    if (op->flags & MX_OP_HIDDEN)
        return;
    snprintf(name, sizeof name, "%s", c_name(op));
    fprintf(file, "\n/* %s: %s.\n * inputs: %s */\n", op->name, op->doc, op->inputs ? op->inputs : "none");
    write_args(op, name);
    write_macro(op, name, "");
    fprintf(file, "MX_API mx_array%s mx_%s_call(const struct mx_%s_args *args);\n", returns_list(op) ? "s" : " *", name,
            name);
    if (has_all_form(op)) {
        write_macro(op, name, "_all");
        fprintf(file, "MX_API mx_arrays mx_%s_all_call(const struct mx_%s_args *args);\n", name, name);
    }
}

static void write_header(void)
{
    fprintf(file, "/* Every operator as a C function with named optional arguments.\n"
                  " * Generated by opgen from the operator registry; do not edit.\n"
                  " * SPDX-License-Identifier: Apache-2.0 */\n"
                  "#ifndef " GUARD "\n#define " GUARD "\n\n#include \"gluon/op.h\"\n");
    for (int i = 0; mx_op_at(i); i++)
        if (is_ours(mx_op_at(i)))
            write_schema(mx_op_at(i));
    for (int i = 0; mx_op_at(i); i++)
        if (is_ours(mx_op_at(i)))
            write_function(mx_op_at(i));
    fprintf(file, "\n#endif\n");
}

/* ---- definitions ------------------------------------------------------------------------------------------- */

/* Attributes are the first members of the arguments; where one is not, they are copied. */
static const char *write_attrs(const mx_op *op)
{
    if (!has_number(op))
        return op->schema ? "a" : "NULL";
    fprintf(file, "    const mx_%s_attrs attrs = {", op->schema->name);
    for (int i = 0; i < op->schema->count; i++)
        fprintf(file, "%s.%s = a->%s", i ? ", " : "", op->schema->fields[i].name, op->schema->fields[i].name);
    fprintf(file, "};\n");
    return "&attrs";
}

static void write_definition(const mx_op *op)
{
    char name[128];
    if (op->flags & MX_OP_HIDDEN)
        return;
    snprintf(name, sizeof name, "%s", c_name(op));
    const bool list = returns_list(op);
    if (is_list(op)) {
        fprintf(file, "\nmx_array%s mx_%s_call(const struct mx_%s_args *a)\n{\n", list ? "s" : " *", name, name);
        fprintf(file, "    return mx_call_list(MX_OP(\"%s\"), %s, %d, (mx_array *const[]){", op->name, write_attrs(op),
                op->declared_inputs - 1);
        for (int i = 0; i < op->declared_inputs - 1; i++)
            fprintf(file, "a->%s, ", input_field(op, i));
        fprintf(file, "NULL}, a->%s, %s)%s;\n}\n", input_field(op, op->declared_inputs - 1),
                list ? "a->out" : "(mx_arrays){&a->out, 1}", list ? "" : ".v[0]");
        return;
    }
    for (int all = 0; all <= has_all_form(op); all++) {
        fprintf(file, "\nmx_array%s mx_%s%s_call(const struct mx_%s_args *a)\n{\n", list || all ? "s" : " *", name,
                all ? "_all" : "", name);
        const char *attrs = write_attrs(op);
        fprintf(file, "    return mx_call_%s(MX_OP(\"%s\"), %s, %d, (mx_array *const[]){", list || all ? "many" : "one",
                op->name, attrs, op->declared_inputs);
        for (int i = 0; i < op->declared_inputs; i++)
            fprintf(file, "a->%s, ", input_field(op, i));
        fprintf(file, "NULL}, %s);\n}\n", all ? "(mx_arrays){0}" : "a->out");
    }
}

static void write_source(void)
{
    fprintf(file, "/* The functions of " NAME
                  ".gen.h.  Generated by opgen; do not edit.  SPDX-License-Identifier: Apache-2.0 */\n"
                  "#include \"gluon/" NAME ".gen.h\"\n#include \"exec/call.h\"\n#include \"op/op.h\"\n");
    for (int i = 0; mx_op_at(i); i++)
        if (is_ours(mx_op_at(i)))
            write_definition(mx_op_at(i));
}

int main(int argc, char **argv) { return generate(argc, argv, write_header, write_source); }
