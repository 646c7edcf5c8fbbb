/* Writes the constructors of all classes (layers, losses, initializers, optimizers, schedules, metrics):
 * `classgen header FILE` and `classgen source FILE`.
 *
 *     mx_dense(10, .activation = "relu")      mx_xavier(.magnitude = 2)      mx_adam(.learning_rate = 0.01)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cgen.h"
#include "gluon/class/class.h"

static const struct {
    const char *type; /* what the constructor returns */
    bool is_block;
} kinds[MX_CLASS_KINDS] = {
    [MX_LAYER] = {"mx_block", true},
    [MX_LOSS] = {"mx_block", true},
    [MX_INITIALIZER] = {"mx_initializer", false},
    [MX_OPTIMIZER] = {"mx_optimizer", false},
    [MX_LR_SCHEDULER] = {"mx_lr_scheduler", false},
    [MX_METRIC] = {"mx_metric", false},
};

static void c_name(const mx_class *cls, char *name, size_t bytes)
{
    if (cls->c_name)
        snprintf(name, bytes, "%s", cls->c_name);
    else
        snake_case(cls->name, name, bytes);
}

static int count(const mx_class *cls) { return cls->schema ? cls->schema->count : 0; }

static void write_args(const mx_class *cls, const char *name)
{
    fprintf(file, "struct mx_%s_args {\n", name);
    for (int i = cls->positional; i < count(cls); i++)
        write_field(&cls->schema->fields[i]);
    if (kinds[cls->kind].is_block)
        fprintf(file, "    const char *prefix; /* of its name; NULL: made from the class name */\n"
                      "    mx_params *params;  /* parameters to share; NULL: own ones */\n");
    fprintf(file, "    char positional_;\n");
    for (int i = 0; i < cls->positional; i++)
        write_field(&cls->schema->fields[i]);
    fprintf(file, "};\n");
}

static void write_macro(const mx_class *cls, const char *name)
{
    fprintf(file, "#define mx_%s(...) mx_%s_make(&(struct mx_%s_args){", name, name, name);
    for (int i = 0; i < count(cls); i++) {
        fprintf(file, ".%s = ", cls->schema->fields[i].name);
        write_default(&cls->schema->fields[i], cls->defaults);
        fprintf(file, ", ");
    }
    fprintf(file, ".positional_ = 0, __VA_ARGS__})\n");
}

static void write_constructor(const mx_class *cls)
{
    char name[128];
    c_name(cls, name, sizeof name);
    fprintf(file, "\n/* %s: %s */\n", cls->name, cls->doc);
    write_args(cls, name);
    write_macro(cls, name);
    fprintf(file, "MX_API %s *mx_%s_make(const struct mx_%s_args *args);\n", kinds[cls->kind].type, name, name);
}

static void write_header(void)
{
    fprintf(
        file,
        "/* Constructors of layers, losses, initializers, optimizers, schedules and metrics.\n"
        " * Made by classgen from the class registry; do not edit.\n"
        " * SPDX-License-Identifier: Apache-2.0 */\n"
        "#ifndef GLUON_NN_GEN_H\n#define GLUON_NN_GEN_H\n\n#include \"gluon/block.h\"\n#include \"gluon/metric.h\"\n"
        "#include \"gluon/optimizer.h\"\n");
    for (int i = 0; mx_class_at(i); i++)
        write_constructor(mx_class_at(i));
    fprintf(file, "\n#endif\n");
}

/* The options struct of the library has the fields in the order of the schema. */
static void write_definition(const mx_class *cls)
{
    char name[128];
    const bool block = kinds[cls->kind].is_block;
    c_name(cls, name, sizeof name);
    fprintf(file, "\n%s *mx_%s_make(const struct mx_%s_args *a)\n{\n", kinds[cls->kind].type, name, name);
    if (count(cls)) {
        fprintf(file, "    struct {\n");
        write_fields(cls->schema);
        fprintf(file, "    } options = {");
        for (int i = 0; i < count(cls); i++)
            fprintf(file, "%sa->%s", i ? ", " : "", cls->schema->fields[i].name);
        fprintf(file, "};\n");
    } else if (!block) {
        fprintf(file, "    (void)a;\n");
    }
    static const char *const kind_constants[] = {"MX_LAYER",     "MX_LOSS",         "MX_INITIALIZER",
                                                 "MX_OPTIMIZER", "MX_LR_SCHEDULER", "MX_METRIC"};
    fprintf(file, "    return mx_class_make_named(%s, \"%s\", %s, %s, %s);\n}\n", kind_constants[cls->kind], cls->name,
            count(cls) ? "&options" : "NULL", block ? "a->prefix" : "NULL", block ? "a->params" : "NULL");
}

static void write_source(void)
{
    fprintf(file,
            "/* The constructors of nn.gen.h.  Made by classgen; do not edit.  SPDX-License-Identifier: Apache-2.0 */\n"
            "#include \"gluon/nn.gen.h\"\n#include \"gluon/class/class.h\"\n");
    for (int i = 0; mx_class_at(i); i++)
        write_definition(mx_class_at(i));
}

int main(int argc, char **argv) { return generate(argc, argv, write_header, write_source); }
