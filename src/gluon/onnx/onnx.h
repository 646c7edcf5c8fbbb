/* ONNX files: what reading and writing share.
 *
 *     file --base/protobuf--> nodes in order --rows--> symbolic arrays --> mx_symbol      read.c, read_tensor.c
 *     mx_symbol --graph, shapes--> nodes --rows--> messages --> file                      write.c
 *
 * A row (def/<family>.c) pairs an operator of ONNX with one of this library and has a function for each direction, side by
 * side: what the attributes mean is written once.  A row without functions says that the two are the same.
 *
 * Reading runs each node on arrays through the library's own functions: nodes on constants are computed at once, so shapes
 * that a file computes are folded; nodes on symbolic arrays add to the graph.  Sizes that are not known (a batch) are
 * represented in such shapes by placeholders, see mx_onnx_is_unknown.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_ONNX_ONNX_H
#define MX_GLUON_ONNX_ONNX_H

#include "base/dict.h"
#include "base/protobuf.h"
#include "base/vec.h"
#include "gluon/op.gen.h"
#include "graph/node.h"

#define MX_ONNX_OLDEST 7   /* opsets that are read */
#define MX_ONNX_NEWEST 28
#define MX_ONNX_LEAST 13   /* opsets that are written */
#define MX_ONNX_MOST 23
#define MX_ONNX_USUAL 17   /* the one that is written unless another is asked for */

/* ---- element types (types.c) -------------------------------------------------------------------------------------- */
enum { MX_ONNX_FLOAT = 1, MX_ONNX_UINT8 = 2, MX_ONNX_INT32 = 6, MX_ONNX_INT64 = 7, MX_ONNX_BOOL = 9 };
typedef struct mx_onnx_type {
    int code;         /* of ONNX */
    const char *name; /* "float16" */
    int bits;         /* of an element; 0: not numbers */
    mx_dtype dtype;   /* of the same elements; MX_DTYPE_NONE: there are no such arrays */
    mx_dtype held;    /* of arrays that hold all its values; MX_DTYPE_NONE: there are none */
} mx_onnx_type;
const mx_onnx_type *mx_onnx_type_of(int64_t code);                       /* NULL: unknown */
const mx_onnx_type *mx_onnx_type_for(mx_dtype dtype);                    /* NULL: ONNX has no such type */
bool mx_onnx_range(const mx_onnx_type *type, double *low, double *high); /* of an integer; false: it is none */

/* ---- reading one node --------------------------------------------------------------------------------------------- */
typedef struct mx_onnx_attr {
    const char *name;
    const unsigned char *bytes; /* (size) of its message */
    int64_t size;
} mx_onnx_attr;

struct mx_onnx_reader;
struct mx_onnx_row;
typedef struct mx_onnx_in {
    const struct mx_onnx_row *row;
    struct mx_onnx_reader *reader;
    const char *name, *op, *domain; /* of the node */
    int opset;                      /* of its domain */
    int n_in, n_out;
    mx_array **in;    /* (n_in) MX_NONE: not given.  Symbolic if any input is: constants are then variables */
    mx_array **value; /* (n_in) the elements of inputs that are constant; NULL: it is not */
    mx_array **out;   /* (n_out) to be filled */
    mx_arrays *lists; /* (n_in) sequences: of rows that say so; v NULL: the input is an array */
    mx_arrays *made;  /* (n_out) sequences that the row makes: v belongs to the scope; NULL: the output is an array */
    const char **in_name, **out_name;
    int *in_type, *out_type; /* (n_in), (n_out) codes of ONNX where arrays hold values of another type; 0: their own */
    int n_attrs;
    mx_onnx_attr *attrs;
    bool live; /* some input is symbolic */
} mx_onnx_in;

mx_code mx_onnx_fail(const mx_onnx_in *n, mx_code code, const char *format, ...) MX_PRINTF(3, 4); /* names the node */
bool mx_onnx_has(const mx_onnx_in *n, const char *attr);
int64_t mx_onnx_int(const mx_onnx_in *n, const char *attr, int64_t fallback);
double mx_onnx_float(const mx_onnx_in *n, const char *attr, double fallback);
/* A text of less than 64 bytes into buffer; `fallback` if it is missing. */
const char *mx_onnx_text(const mx_onnx_in *n, const char *attr, char *buffer, const char *fallback);
/* A list of numbers of any kind; n == -1: it is missing.  false with an error if it is too long. */
bool mx_onnx_ints(const mx_onnx_in *n, const char *attr, mx_dims *dims);
bool mx_onnx_floats(const mx_onnx_in *n, const char *attr, mx_floats *floats);
/* A list of any length as an array, int64 or float32; NULL, perhaps without an error: missing. */
mx_array *mx_onnx_list(const mx_onnx_in *n, const char *attr, bool floats);
/* Calls `take` with every text of a list (not terminated); the number of texts. */
int64_t mx_onnx_texts(const mx_onnx_in *n, const char *attr, void (*take)(void *to, const char *text, int64_t size),
                      void *to);
/* The first letters of a list of texts. */
void mx_onnx_strings(const mx_onnx_in *n, const char *attr, char *letters, size_t room);
mx_array *mx_onnx_tensor(const mx_onnx_in *n, const char *attr); /* NULL, perhaps without an error: missing */
/* Results of a subgraph in an attribute on these inputs: the rest of its values are those around the node. */
mx_code mx_onnx_subgraph(const mx_onnx_in *n, const char *attr, mx_arrays in, int n_out, mx_array **out);

static inline bool mx_onnx_given(const mx_onnx_in *n, int i) { return i < n->n_in && n->in[i] != MX_NONE; }
static inline mx_array *mx_onnx_input(const mx_onnx_in *n, int i) { return i < n->n_in ? n->in[i] : MX_NONE; }
/* Input i as a part of the graph, also if the node's other inputs are constant. */
mx_array *mx_onnx_variable(mx_onnx_in *n, int i);
/* The numbers of a constant input: an error if it is not constant or has too many; n == -1: it is missing. */
bool mx_onnx_dims(const mx_onnx_in *n, int i, mx_dims *dims);
bool mx_onnx_number(const mx_onnx_in *n, int i, double fallback, double *number); /* of its only element */
bool mx_onnx_axis(const mx_onnx_in *n, int64_t *axis, int rank);                  /* 0 <= axis < rank, or an error */
int mx_onnx_rank(const mx_onnx_in *n, int i);                                     /* -1 with an error: not known */
bool mx_onnx_shape(const mx_onnx_in *n, int i, mx_dims *shape); /* an error unless all of it is known */
/* Numbers that stand for unknown sizes, and what is computed from them; no size in a file is that far below zero. */
static inline bool mx_onnx_is_unknown(int64_t size) { return size < -(INT64_C(1) << 30) && size > -(INT64_C(1) << 60); }
/* Zeros of a shape that may have placeholders: their sizes follow from the inputs. */
mx_array *mx_onnx_zeros(const mx_onnx_in *n, const mx_dims *shape, mx_dtype dtype);
mx_array *mx_onnx_count(const mx_onnx_in *n, int64_t size, mx_dtype dtype); /* 0, 1, 2 ...; an error if it is large */
int64_t mx_onnx_placeholder(const mx_onnx_in *n, const mx_array *x, int axis);
/* The type of ONNX of an input. */
const mx_onnx_type *mx_onnx_in_type(const mx_onnx_in *n, int i);
/* Whole numbers as a type of ONNX has them: only its lowest bits count. */
mx_array *mx_onnx_wrapped(mx_array *x, const mx_onnx_type *type);
/* Numbers rounded to those of a float type of eight or four bits; saturate: too large ones become the largest. */
mx_array *mx_onnx_small_floats(mx_array *x, const mx_onnx_type *type, bool saturate);
mx_code mx_onnx_read_conv(mx_onnx_in *n); /* inputs 0, 1 and, if it is given, 2: a bias */
/* Helpers that keep what the formulas of rows say short. */
mx_array *mx_onnx_cast(mx_array *x, mx_dtype dtype); /* x itself if it has that type */
mx_array *mx_onnx_constant(mx_dims shape, mx_dtype dtype, const double *numbers);
mx_array *mx_onnx_scalar(double number, mx_dtype dtype);           /* 0-d */
mx_array *mx_onnx_int64s(const mx_dims *dims);                     /* a list */
mx_array *mx_onnx_as_scalar(mx_array *x);                          /* one element as 0-d */
mx_array *mx_onnx_matmul(mx_onnx_in *n, mx_array *a, mx_array *b); /* broadcasts batches */

/* ---- writing one node --------------------------------------------------------------------------------------------- */
struct mx_onnx_writer;
typedef struct mx_onnx_out {
    const struct mx_onnx_row *row;
    struct mx_onnx_writer *writer;
    const mx_gnode *node;
    const void *attrs; /* of the operator */
    int opset;
    int n_in, n_out;
    const char **in, **out;                 /* names of values; "": absent */
    const mx_shape_t *in_shape, *out_shape; /* sizes may be unknown */
    const int *in_type, *out_type;          /* mx_dtype */
} mx_onnx_out;

/* Adds a node; `out` NULL: its result gets a new name.  Returns the name of the result; NULL inputs are absent. */
const char *mx_onnx_node(mx_onnx_out *o, const char *out, const char *op, int n, const char *const *in);
#define mx_onnx_put(o, out, op, ...)                                                                                     \
    mx_onnx_node(o, out, op, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), (const char *[]){__VA_ARGS__})
const char *mx_onnx_spare(mx_onnx_out *o);                 /* a new name for a later node's result */
const char *mx_onnx_more(mx_onnx_out *o, const char *out); /* a further result of the last node; NULL: a new name */
/* Attributes of the last node. */
void mx_onnx_set_int(mx_onnx_out *o, const char *name, int64_t value);
void mx_onnx_set_float(mx_onnx_out *o, const char *name, double value);
void mx_onnx_set_text(mx_onnx_out *o, const char *name, const char *value);
void mx_onnx_set_texts(mx_onnx_out *o, const char *name, int n, const char *value); /* n times the same */
void mx_onnx_set_ints(mx_onnx_out *o, const char *name, int n, const int64_t *values);
void mx_onnx_set_graph(mx_onnx_out *o, const char *name, mx_text *graph); /* frees the message of the graph */
/* Constants. */
const char *mx_onnx_put_ints(mx_onnx_out *o, int n, const int64_t *values);             /* int64, one axis */
const char *mx_onnx_put_number(mx_onnx_out *o, double value, int dtype);                /* 0-d */
const char *mx_onnx_put_floats(mx_onnx_out *o, int n, const double *values, int dtype); /* one axis */
/* Reductions with kept axes, in the form of the opset. */
const char *mx_onnx_put_reduce(mx_onnx_out *o, const char *out, const char *op, const char *x, int n,
                               const int64_t *axes, bool keep);
#define mx_onnx_put_mean(o, out, x, n, axes) mx_onnx_put_reduce(o, out, "ReduceMean", x, n, axes, true)
const char *mx_onnx_put_array(mx_onnx_out *o, mx_array *x);
/* Short forms of usual nodes.  with: op of x and a number of the type of input 0; transpose: the last two axes swapped. */
const char *mx_onnx_put_with(mx_onnx_out *o, const char *out, const char *op, const char *x, double number);
const char *mx_onnx_put_shaped(mx_onnx_out *o, const char *out, const char *x, int n, const int64_t *shape);
const char *mx_onnx_put_part(mx_onnx_out *o, const char *out, const char *x, int64_t axis, int64_t begin, int64_t end);
const char *mx_onnx_put_flipped(mx_onnx_out *o, const char *out, const char *x, int64_t axis);
const char *mx_onnx_put_ordered(mx_onnx_out *o, const char *out, const char *x, int n, const int64_t *axes);
const char *mx_onnx_put_transposed(mx_onnx_out *o, const char *x, int rank);
const char *mx_onnx_put_choice(mx_onnx_out *o, const char *out, const char *x, const char *indices, int64_t axis);
const char *mx_onnx_put_cast(mx_onnx_out *o, const char *out, const char *x, int dtype);
#define MX_ONNX_LIST(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}
mx_code mx_onnx_refuse(const mx_onnx_out *o, const char *format, ...) MX_PRINTF(2, 3); /* names node and operator */
int mx_onnx_out_rank(const mx_onnx_out *o, int i); /* of an input; -1 with an error if it is not known */
/* The value of an input that is a parameter or constant; NULL: it is not. */
mx_array *mx_onnx_out_value(const mx_onnx_out *o, int i);
mx_code mx_onnx_done(const mx_onnx_out *o); /* what a row's function returns: the error, if there was one */

/* ---- rows ---------------------------------------------------------------------------------------------------------- */
typedef struct mx_onnx_row {
    const char *onnx;                 /* operator of ONNX; NULL: the row is for writing only */
    const char *ours;                 /* operator of this library; NULL: for reading only */
    mx_code (*read)(mx_onnx_in *n);   /* NULL: a call of `ours` on the same inputs */
    mx_code (*write)(mx_onnx_out *o); /* NULL: a node of `onnx` on the same inputs */
    uint32_t constants;               /* bit i: input i is read as a constant */
    bool sequences;                   /* it reads or makes sequences of arrays */
    int since;                        /* the opset that introduced the operator, if it is above MX_ONNX_LEAST */
} mx_onnx_row;
/* SAME("Abs", "abs"); READ("Elu", read_elu, .constants = 2); WRITE(NULL, "square", write_square) ... */
#define SAME(name, own) {.onnx = name, .ours = own}
#define READ_SAME(name, own, function) {.onnx = name, .ours = own, .read = function}
#define BOTH(name, own, reads, ...) {.onnx = name, .ours = own, .read = reads, .write = __VA_ARGS__}
#define READ(name, ...) {.onnx = name, .read = __VA_ARGS__}
#define WRITE(name, own, ...) {.onnx = name, .ours = own, .write = __VA_ARGS__}

extern const mx_onnx_row *const mx_onnx_families[]; /* NULL at the end; each ends with an empty row */
/* Fills a table by names of ONNX, or by ours; the first row of a name wins. */
mx_code mx_onnx_index(mx_dict *table, bool ours);

#endif
