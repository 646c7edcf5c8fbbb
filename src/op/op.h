/* Operators: their descriptions in the registry.
 *
 * One file in op/def describes one operator or a tight family: an array `mx_op mx_family_<file>[]`, ended by an
 * empty entry.  Everything else (C functions, front ends, JSON, documentation, tests) is derived from these entries.
 * Kernels are attached by the devices (cpu/, cuda/) as ordered lists; the first that does not decline wins.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_OP_H
#define MX_OP_OP_H

#include "gluon/amp.h"
#include "gluon/op.h"
#include "ndarray/array.h"
#include "ndarray/dtype.h"
#include "op/schema.h"

#define MX_MAX_DECLARED 16 /* inputs that an operator names */
#define MX_MAX_OUTPUTS 64 /* of one operator call; inputs have no limit */

/* ---- inference ------------------------------------------------------------------------------------------ */
/* Shapes and types of one call.  Inference fills in what follows from what is known, in both directions, and
 * fails only on a contradiction; unknown parts may stay unknown.  Types are mx_dtype, MX_DTYPE_NONE if unknown. */
typedef struct mx_infer {
    const mx_op *op;
    const void *attrs;
    int n_in, n_out;
    mx_shape_t *in, *out;
    int *in_type, *out_type;
    mx_array *const *values; /* the inputs, for results whose size depends on values; NULL while tracing */
} mx_infer;

/* ---- kernels -------------------------------------------------------------------------------------------- */
typedef struct mx_kernel_call {
    const mx_op *op;
    const void *attrs;
    int n_in, n_out;
    mx_array *const *in;  /* absent optional inputs are MX_NONE */
    mx_array *const *out; /* allocated; overlap with an input only for MX_OP_INPLACE (SECOND_) ops, and then exactly */
    bool training;
    void *workspace; /* the bytes that the kernel requested */
} mx_kernel_call;

#define MX_DECLINED ((mx_code)-1) /* "not this call, try the next kernel": nothing was written */
typedef mx_code (*mx_kernel_fn)(const mx_kernel_call *call);
typedef struct mx_kernel {
    const char *op; /* canonical operator name */
    mx_kernel_fn run;
    size_t (*workspace)(const mx_kernel_call *call); /* NULL: none */
    uint32_t flags;                                  /* of enum mx_kernel_flags */
} mx_kernel;
enum mx_kernel_flags {
    /* Computes only in float32 or float64.  If the floating arrays of a call have other or mixed types, the kernel gets
     * converted copies, and its results are converted back (op/widen.c).  For kernels on host memory. */
    MX_KERNEL_WIDEN = 1,
};
mx_code mx_run_widened(const mx_kernel_call *call, mx_kernel_fn run);
/* In checked builds: asserts the contract of mx_kernel_call, and that types and shapes agree with inference. */
#if MX_CHECKED
void mx_kernel_check(const mx_kernel_call *call);
#else
static inline void mx_kernel_check(const mx_kernel_call *call) { (void)call; }
#endif
/* Runs a kernel according to its flags; all kernels are run through this. */
static inline mx_code mx_kernel_run(const mx_kernel *kernel, const mx_kernel_call *call)
{
    mx_kernel_check(call);
    return kernel->flags & MX_KERNEL_WIDEN ? mx_run_widened(call, kernel->run) : kernel->run(call);
}
#define MX_MAX_KERNELS 4 /* per operator and device */
/* The device whose kernels compute on arrays of a context: the CPU for pinned and shared memory. */
static inline mx_device_type mx_kernel_device(mx_context context) { return context.type == MX_GPU ? MX_GPU : MX_CPU; }
/* Runs n independent calls of one operator as one; they are `stride` bytes apart.  May decline. */
typedef mx_code (*mx_many_fn)(int n, const mx_kernel_call *first, size_t stride);
static inline const mx_kernel_call *mx_call_at(const mx_kernel_call *first, size_t stride, int i)
{
    return (const mx_kernel_call *)((const char *)first + stride * (size_t)i);
}

/* ---- gradients ------------------------------------------------------------------------------------------ */
typedef struct mx_grad {
    const mx_op *op;
    const void *attrs;
    int n_in, n_out;
    mx_array *const *in;        /* only those named in op->grad_in; others NULL */
    mx_array *const *out;       /* only those named in op->grad_out; others NULL */
    mx_array *const *ograd;     /* gradient per output; NULL where none arrived (zero) */
    mx_array **igrad;           /* to be filled for wanted inputs: owned by the scope; NULL means zero */
    const bool *wanted;         /* per input */
    const mx_shape_t *in_shape; /* shapes of the inputs, also of those that were not saved */
    const int *in_type;
    bool training;
    bool create_graph; /* the gradient will be differentiated again: use compositions only */
} mx_grad;

/* The gradient of input i is `value`, as its composition returned it: NULL is an error that was recorded. */
static inline mx_code mx_give(mx_grad *grad, int i, mx_array *value)
{
    grad->igrad[i] = value;
    return value ? MX_OK : mx_error_code();
}

#define MX_ALL_ARGS 0xffffffffu /* grad_in / grad_out: save all of them */

/* ---- samples -------------------------------------------------------------------------------------------- */
/* One call that the tests run: value against `reference`, gradient against finite differences, every type,
 * aliasing, empty inputs, one thread and several. */
typedef struct mx_sample {
    const char *shapes; /* "2,3;3" one shape per input, ';' between; "()" 0-d; for list inputs as many as wanted */
    const char *attrs;  /* "axis=1, keepdims=True" */
    double low, high;   /* inputs are drawn from here; 0,0: -2..2 */
    const char
        *note; /* special inputs: "int:1" input 1 holds integers in [low, high); "distinct", "positive" ... see tests */
} mx_sample;
/* Double-precision reference: inputs and outputs as doubles with the call's shapes. */
typedef struct mx_reference_call {
    const void *attrs;
    int n_in, n_out;
    const mx_shape_t *in_shape, *out_shape;
    const double *const *in;
    double *const *out;
    bool training;
} mx_reference_call;
typedef void (*mx_reference_fn)(const mx_reference_call *call);

/* ---- operators ------------------------------------------------------------------------------------------ */
enum mx_op_flags {
    MX_OP_LIST = 1,        /* the last declared input is a list of any length ("*data") */
    MX_OP_INPLACE = 2,     /* kernels may run with out[0] being in[0] (or any input of the same shape) */
    MX_OP_RANDOM = 4,      /* draws random numbers */
    MX_OP_TRAINING = 8,    /* behaves differently in training mode */
    MX_OP_HIDDEN = 16,     /* internal: no public C function, not in front ends */
    MX_OP_NO_GRADIENT = 32,/* has no gradient: requesting one is an error */
    MX_OP_ZERO_GRADIENT = 64, /* piecewise constant: gradient zero */
    MX_OP_VIEW = 128,      /* the elements of input 0 in another shape: the output may share its storage, no kernel */
    MX_OP_CREATE = 256,    /* no array inputs; creates its output on attrs->ctx */
    MX_OP_CALLS = 512,     /* calls subgraphs or a user's code: see op/control.h */
    MX_OP_IDENTITY = 1024, /* output 0 is input 0 while predicting, unless a random number is drawn */
    MX_OP_LOSS = 2048,     /* a loss */
    MX_OP_ELEMENTWISE = 4096, /* element i of the output depends on elements i of the inputs alone (pointwise.h: implied) */
    MX_OP_EXPANDS = 8192,  /* a composition of other operators: see op/expand.h */
    MX_OP_SECOND_INPLACE = 16384, /* kernels may run with out[1] being in[0] */
};

/* What the operator does with sparse inputs; exec/sparse has a function for each of these. */
typedef enum mx_sparse_rule {
    MX_SPARSE_REFUSED,   /* runs on dense copies */
    MX_SPARSE_ZEROS,     /* f(0) = 0: works on the stored values alone; with other numbers in its attributes on a dense copy */
    MX_SPARSE_TWO,       /* + - * / of two arrays */
    MX_SPARSE_SUM,       /* of any number of arrays */
    MX_SPARSE_FOLD,      /* sum, mean or norm over axes */
    MX_SPARSE_DOT,       /* matrix product */
    MX_SPARSE_EMBEDDING, /* rows of a row_sparse weight */
    MX_SPARSE_SLICE,     /* a range along the axes */
    MX_SPARSE_CONCAT,    /* concatenation */
    MX_SPARSE_TAKE,      /* rows of a csr */
    MX_SPARSE_RETAIN,    /* chosen rows of a row_sparse array */
    MX_SPARSE_STORAGE,   /* conversion between storage types */
    MX_SPARSE_UPDATE,    /* an optimizer's update of the rows in the gradient */
    MX_SPARSE_RULES
} mx_sparse_rule;

/* How the operator's box is coloured in drawings of graphs (graph/dot.c). */
typedef enum mx_look {
    MX_LOOK_OTHER,
    MX_LOOK_WEIGHTS,    /* layers with weights */
    MX_LOOK_NORM,       /* normalizations */
    MX_LOOK_ACTIVATION,
    MX_LOOK_POOLING,    /* pooling and resizing */
    MX_LOOK_SHAPE,      /* only shapes and positions change */
    MX_LOOK_SUM,
    MX_LOOK_SOFTMAX,    /* softmax and losses */
    MX_LOOKS
} mx_look;

/* How the first output of an operator with effects is computed again by one without: the same bits, but no new random
 * numbers and no second update of running statistics. */
typedef struct mx_again {
    const char *op;
    const char *attrs; /* of `op`; NULL: those of the step, whose schema it shares */
    char room[96];     /* for attrs */
    int n_in;
    int8_t from[6]; /* its inputs: input i of the step, or its output -1 - i */
} mx_again;

struct mx_op {
    const char *name;      /* canonical, as in files: "Convolution" */
    const char *aliases;   /* "a b c" or NULL */
    const char *doc;       /* first sentence: what it computes; then details */
    const char *inputs;    /* "data weight bias?": '?' optional (MX_NONE allowed), "*data" a list */
    const char *outputs;   /* "output mean var"; NULL: "output" */
    bool input_named;      /* monitors show its only input, data, under this name; else as input0 */
    bool outputs_numbered; /* the names are for readers: in graphs they are output0, output1 ... */
    mx_schema *schema;     /* NULL: no attributes */
    uint32_t flags;
    int n_out;                                    /* outputs, hidden ones included; 0 means 1 */
    int n_visible;                                /* outputs that callers see; 0 means n_out */
    int (*count_in)(const void *attrs);           /* inputs that a symbol needs; NULL: all that are not optional */
    bool (*lacks)(const void *attrs, int input);  /* an optional input is absent; NULL: as use_x or no_x say */
    int (*count_out)(const void *attrs);          /* NULL: n_out */
    int (*count_visible)(const void *attrs);      /* NULL: n_visible */
    mx_code (*infer_shape)(mx_infer *infer);      /* NULL: all inputs and outputs have one shape */
    mx_code (*infer_type)(mx_infer *infer);       /* NULL: all inputs and outputs have one type */
    mx_code (*check)(const void *attrs);          /* NULL; cross-field checks of attributes beyond the schema's */
    mx_code (*audit)(const mx_kernel_call *call); /* NULL; in checking mode, before a call: are the values sensible? */
    mx_code (*gradient)(mx_grad *grad);           /* NULL: none (see flags) */
    uint32_t grad_in, grad_out;                   /* bit i: the gradient uses input / output i */
    uint32_t mutates;                             /* bit i: input i is written (running statistics, optimizer state) */
    uint32_t no_grad_inputs;                      /* bit i: no gradient flows to input i (indices, lengths, states) */
    const mx_sample *samples;                     /* ended by an entry without shapes */
    mx_reference_fn reference;
    const struct mx_movement *movement; /* it only moves elements, by this rule (op/formula/movement.h); NULL: no */
    const void *user;                   /* data for a family's shared functions */

    /* Whether gradients of inputs depend on that of an output: not those of losses and of indices; NULL: they do. */
    bool (*reads_head)(const void *attrs, int output);

    /* Facts used by front ends, mixed precision, sparse arrays, drawings and emitted C files. */
    const char *c_name;               /* of the C function, without mx_; NULL: the name in snake case */
    const char *methods;              /* names as a method of arrays and symbols, "flip reverse"; NULL: none */
    const char *hint;                 /* of automatic node names, "_plus"; NULL: the name in lower case */
    mx_precision precision;           /* what it computes in under mixed precision; 0: any input types */
    const char *const *float32_where; /* {attribute, values ..., NULL}: float32 with these values */
    mx_sparse_rule sparse;            /* what it does with sparse inputs; 0: runs on dense copies */
    bool sparse_gradient;             /* its gradient works with sparse inputs */
    bool finite_at_zero;              /* zeros give a finite result: padded lanes stay finite (pass/layout.c) */
    mx_look look;                     /* in drawings */
    const char *shows;                /* attributes that its box in a drawing shows: "kernel/stride, num_filter" */
    const char *starts[5];            /* "__init__" of inputs that are variables, by position; NULL: none */
    const struct mx_emission *emit;   /* how it is written into a C file (op/emit.h); NULL: see mx_emission_of */

    /* Filled in by the registry. */
    int id, declared_inputs;
    void *defaults;                              /* attribute struct with default values */
    const mx_kernel *kernels[8][MX_MAX_KERNELS]; /* by device type, in order of preference, NULL-ended */
    mx_many_fn many[8];                          /* by device type; NULL: calls run one by one */
    bool (*draws)(const void *attrs);            /* of random operators: these attributes let them draw; NULL: all do */
    uint32_t
        by_entry; /* bit i: entry n of the output, on axis 0, depends on entry n of input i and on no other; 0: not so */
    void (*again)(const void *attrs, mx_again *again); /* of operators with effects; NULL: the output must be saved */
};

int mx_op_count_out(const mx_op *op, const void *attrs);
int mx_op_count_visible(const mx_op *op, const void *attrs);
/* With these attributes the operator can draw random numbers. */
static inline bool mx_op_draws(const mx_op *op, const void *attrs)
{
    return op->flags & MX_OP_RANDOM && (!op->draws || op->draws(attrs));
}
/* See mx_op.reads_head; outputs of piecewise constant operators are not read either. */
bool mx_op_reads_head(const mx_op *op, const void *attrs, int output);
bool mx_reads_no_head(const void *attrs, int output); /* mx_op.reads_head of losses */
/* Name of input i ("data", or "data3" for lists) into buffer (64 bytes). */
const char *mx_op_input_name(const mx_op *op, int i, char *buffer);
const char *mx_op_output_name(const mx_op *op, int i, char *buffer);
bool mx_op_input_optional(const mx_op *op, int i);
void mx_op_attach(mx_device_type device, const mx_kernel *kernel); /* appends; unknown names are an internal error */
void mx_op_attach_many(mx_device_type device, const char *op, mx_many_fn many);

/* Runs shape and type inference; errors name the operator. */
mx_code mx_op_infer(mx_infer *infer);

/* ---- for inference functions ---------------------------------------------------------------------------- */
/* Merge a shape or type into slot i; errors name the operator, the input and both shapes. */
mx_code mx_infer_in(mx_infer *infer, int i, const mx_shape_t *shape);
mx_code mx_infer_out(mx_infer *infer, int i, const mx_shape_t *shape);
mx_code mx_infer_in_type(mx_infer *infer, int i, int dtype);
mx_code mx_infer_out_type(mx_infer *infer, int i, int dtype);
bool mx_infer_equal_shapes(mx_infer *infer); /* true: all inputs have one known shape, which the outputs now have too */
mx_code mx_infer_same_shape(mx_infer *infer);
mx_code mx_infer_same_type(mx_infer *infer);
/* For backward operators: checks the shapes of the inputs against the forward rule.  in[i] and out[i] name the backward
 * input that was the forward's input or output i; -1: unknown.  Lists are ended by -2. */
mx_code mx_infer_through(mx_infer *infer, mx_code (*forward)(mx_infer *), const int *in, const int *out);
/* "op: message" with code MX_ERR_SHAPE etc. */
mx_code mx_op_fail(const mx_op *op, mx_code code, const char *format, ...) MX_PRINTF(3, 4);

/* ---- for audits (op/audit.c) ----------------------------------------------------------------------------- */
/* The elements of input i are indices from `low` up to, not including, `end`; `also` is allowed, too (NaN: nothing). */
mx_code mx_audit_indices(const mx_kernel_call *call, int i, int64_t low, int64_t end, double also);
mx_code mx_audit_division(
    const mx_kernel_call *call); /* integers, by an attribute `scalar` or input 1: no remainders */

/* ---- for gradients: compositions of operators, on arrays of any kind ------------------------------------- */
/* The operator of a literal name, looked up once per call site. */
#define MX_OP(name)                                                        \
    __extension__({                                                        \
        static mx_op *cached_op;                                           \
        mx_op *found_op = __atomic_load_n(&cached_op, __ATOMIC_ACQUIRE);   \
        if (!found_op) {                                                   \
            found_op = mx_op_find(name);                                   \
            __atomic_store_n(&cached_op, found_op, __ATOMIC_RELEASE);      \
        }                                                                  \
        found_op;                                                          \
    })
/* One-output calls; NULL inputs give NULL.  attrs: the operator's attribute struct, NULL for defaults. */
mx_array *mx_g_call(mx_op *op, const void *attrs, int n_in, mx_array *const *in);
/* Attributes as text, "axis=1, keepdims=True": not for hot paths. */
mx_array *mx_g_text(mx_op *op, const char *attrs, int n_in, mx_array *const *in);
#define mx_g1(name, a) mx_g_call(MX_OP(name), NULL, 1, (mx_array *const[]){a})
#define mx_g2(name, a, b) mx_g_call(MX_OP(name), NULL, 2, (mx_array *const[]){a, b})
#define mx_g3(name, a, b, c) mx_g_call(MX_OP(name), NULL, 3, (mx_array *const[]){a, b, c})
mx_array *mx_g_add(mx_array *a, mx_array *b);
mx_array *mx_g_sub(mx_array *a, mx_array *b);
mx_array *mx_g_mul(mx_array *a, mx_array *b); /* broadcasting, as are add, sub and div */
mx_array *mx_g_div(mx_array *a, mx_array *b);
mx_array *mx_g_neg(mx_array *a);
mx_array *mx_g_scale(mx_array *a, double factor);
mx_array *mx_g_shift(mx_array *a, double addend);
mx_array *mx_g_rsub(double c, mx_array *a); /* c - a */
mx_array *mx_g_rdiv(double c, mx_array *a); /* c / a */
mx_array *mx_g_power(mx_array *a, double exponent);
mx_array *mx_g_reshape(mx_array *a, const mx_shape_t *shape);
mx_array *mx_g_sum_to(mx_array *a, const mx_shape_t *shape); /* undoes broadcasting */
mx_array *mx_g_broadcast_to(mx_array *a, const mx_shape_t *shape);

extern mx_op *const mx_op_families[]; /* generated from the file names in op/def; NULL-ended */

#endif
