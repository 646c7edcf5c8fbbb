/* The gluon command: what its parts share.
 *
 * A command is a table entry: name, usage, options and a function; it determines parsing, help and usage errors.  Functions
 * of the library record errors; a command returns CLI_FAILED and main prints the record.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_CLI_H
#define GLUON_CLI_H

#include <gluon.h>

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 }; /* exit codes */
enum { CLI_MOST = 16, CLI_REST = -1 };              /* arguments, and uses of one option; see cli_command */

typedef struct cli_option {
    const char *name;     /* "--top" */
    const char *argument; /* placeholder of its argument, "N"; NULL: it takes none */
    const char *help;
} cli_option;

typedef struct cli_args cli_args;
typedef struct cli_command {
    const char *name, *usage, *help;
    int least, most;           /* arguments besides options; most CLI_REST: none, but a command line after -- */
    const cli_option *options; /* ended by an entry without a name */
    int (*run)(const cli_args *args);
} cli_command;

struct cli_args {
    const cli_command *command;
    int count; /* arguments besides options */
    const char *values[CLI_MOST];
    int given; /* options */
    const cli_option *option[CLI_MOST];
    const char *text[CLI_MOST]; /* the argument of each option; "" if it takes none */
    char **rest;                /* after --, up to NULL; NULL: nothing */
};

/* CLI_OK, CLI_USAGE after a message, or -1 after help was printed. */
int cli_parse(const cli_command *command, int argc, char **argv, cli_args *args);
void cli_help(const cli_command *command);
/* The argument of the i-th use of an option; NULL: there is no such use. */
const char *cli_option_at(const cli_args *args, const char *name, int i);
static inline const char *cli_option_of(const cli_args *args, const char *name) { return cli_option_at(args, name, 0); }
/* An integer of at least `least`; `fallback` if the option was not given; false after a message. */
bool cli_number(const cli_args *args, const char *name, int64_t fallback, int64_t least, int64_t *number);
/* Numbers separated by commas: "1,3,224,224"; false after a message. */
bool cli_dims(const char *what, const char *text, mx_dims *dims);
bool cli_floats(const char *what, const char *text, mx_floats *floats);
int cli_usage(const cli_args *args, const char *format, ...) MX_PRINTF(2, 3); /* prints, returns CLI_USAGE */
bool cli_ends_with(const char *text, const char *suffix);

/* ---- models -------------------------------------------------------------------------------------------------- */
typedef struct cli_model {
    char symbol_path[4096], params_path[4096]; /* params_path "": there is none */
    bool network;                              /* of the zoo: symbol_path is its name, and it has no parameters */
    bool onnx;                                 /* an ONNX file: the graph holds its parameters */
    mx_symbol *symbol;
    mx_array_dict *params; /* NULL: none */
    int n_inputs, n_labels;
    const char *inputs[CLI_MOST]; /* variables without a value that are data */
    const char *labels[CLI_MOST]; /* ... and labels of loss outputs, which predictions do not need */
    mx_dims shapes[CLI_MOST];     /* of the inputs; n == -1: not known; 0 inside: any size */
    mx_dtype types[CLI_MOST];     /* of the inputs */
} cli_model;

/* NAME stands for NAME-symbol.json and the newest NAME-NNNN.params; --params and --shape override that.  NAME.onnx is an ONNX
 * file. */
bool cli_model_load(cli_model *model, const cli_args *args, const char *name);
/* The full paths for NAME; `params` is "" if there is no file.  False with an error if there is no symbol. */
bool cli_model_paths(const char *name, char symbol[4096], char params[4096]);
/* A block of the model; labels are inputs after the data. */
mx_block *cli_model_block(const cli_model *model);
/* Appends placeholders for the labels to the n data arrays in `in` (CLI_MOST). */
mx_arrays cli_model_inputs(const cli_model *model, mx_array **in);
/* Shapes of all inputs in the form of mx_symbol_infer; unknown ones are left out. */
struct mx_known cli_model_known(const cli_model *model, const char **names, mx_dims *shapes);

extern const cli_command cli_predict, cli_summary, cli_plot, cli_convert, cli_bench, cli_doctor, cli_compile,
    cli_completion, cli_im2rec, cli_run;
extern const cli_command *const cli_commands[]; /* all of them; NULL at the end */

#define CLI_MODEL_OPTIONS \
    {"--params", "FILE", "parameters; otherwise the newest MODEL-NNNN.params"}, \
    { \
        "--shape", "[NAME=]N,N,...", "shape of an input that the model does not specify, 0: any size; may be repeated" \
    }

#endif
