/* Operator samples as test cases: reading an entry of op->samples, drawing its inputs, running it, its reference.
 *
 *     sample "2,3;3" + "axis=1" + "int:1"  ->  ops_case  ->  ops_draw (doubles)  ->  ops_array (any type)
 *                                                                 |                      | mx_invoke
 *                                                                 +--> ops_reference ----+--> compared
 *
 * Everything is deterministic: inputs depend on the operator's name, the sample's number and the input's number.
 * Failures are counted and printed with the operator, the sample and both sides; nothing stops at the first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_OPS_CASE_H
#define TESTS_OPS_CASE_H

#include "gluon/autograd.h"
#include "op/op.h"

#define OPS_MAX_IN 40

typedef struct ops_case {
    mx_op *op;
    const mx_sample *sample;
    int number;                                                           /* of the sample */
    void *attrs;                                                          /* parsed; NULL: the operator has none */
    int n_in;                                                             /* inputs, absent ones included */
    mx_shape_t shape[OPS_MAX_IN];                                         /* of the inputs; unknown for absent ones */
    bool absent[OPS_MAX_IN];                                              /* MX_NONE is passed */
    bool integer[OPS_MAX_IN];                                             /* "int:K" */
    bool distinct, nograd, train, random, float_only, f32_only, positive; /* the other notes */
    bool dominant;  /* square matrices get a large diagonal: they can be inverted */
    bool symmetric; /* input 0 holds symmetric matrices, also when one of its elements is changed */
    double low, high;
    int n_out, n_visible;
} ops_case;

/* Shapes and elements as doubles: the inputs or the outputs of a call. */
typedef struct ops_values {
    int n;
    mx_shape_t shape[MX_MAX_OUTPUTS + OPS_MAX_IN];
    int64_t size[MX_MAX_OUTPUTS + OPS_MAX_IN];
    double *v[MX_MAX_OUTPUTS + OPS_MAX_IN]; /* owned; NULL for absent inputs */
} ops_values;

/* Counts for the table at the end; a test asserts on the failures of the current operator. */
typedef struct ops_totals {
    int ops, samples;
    int64_t values, gradients, second_orders; /* numbers compared */
    int64_t calls_accepted, calls_declined;   /* sample x type */
    int second_order_missing;                 /* operators that report that they have none */
    int failures;
} ops_totals;
extern ops_totals ops_total;

bool ops_case_open(ops_case *c, mx_op *op, int number); /* false: reported */
void ops_case_close(ops_case *c);
int ops_sample_count(const mx_op *op);

/* Counts a failure and prints it; after a few per operator only counts. */
void ops_fail(const ops_case *c, const char *format, ...) MX_PRINTF(2, 3);
void ops_fail_reset(void); /* before the next operator */
/* An error must be recorded, with a message that names the operator (`legal` codes: any). Clears it. */
void ops_check_error(const ops_case *c, const char *what);

/* ---- numbers -------------------------------------------------------------------------------------------- */
double ops_random(uint64_t *state); /* [0, 1) */
uint64_t ops_seed(const ops_case *c, int stream);
/* Inputs for a call in `dtype`; false if the sample cannot be drawn in that type.  Free with ops_values_free. */
void ops_make_symmetric(const mx_shape_t *shape, double *v, int64_t size);
bool ops_draw(const ops_case *c, mx_dtype dtype, ops_values *in);
void ops_values_free(ops_values *values);
void ops_values_copy(ops_values *to, const ops_values *from);
void ops_values_add(ops_values *values, const mx_shape_t *shape); /* zeros */

/* ---- calls ---------------------------------------------------------------------------------------------- */
/* The choices of input types for a call in `dtype`; false past the last one. */
bool ops_types(const ops_case *c, mx_dtype dtype, int variant, int *types);
/* An array of the scope with these elements.  Guarded: a window at an odd place between guard bytes. */
mx_array *ops_array(const mx_shape_t *shape, mx_dtype dtype, const double *values, bool guarded);
bool ops_guards_intact(const mx_array *x);
/* The inputs of a call as arrays of the scope. */
bool ops_arrays(const ops_case *c, const ops_values *in, const int *types, bool guarded, mx_array **arrays);
/* mx_invoke in the sample's mode (recording: as the caller set it). */
mx_code ops_run(const ops_case *c, mx_array *const *in, mx_array **out);
/* Shapes of all outputs, hidden ones too, for the given inputs. */
bool ops_infer(const ops_case *c, const ops_values *in, const int *types, mx_shape_t *out, int *out_types);
/* Outputs (and then the mutated inputs) by the operator's reference. */
void ops_reference(const ops_case *c, const ops_values *in, ops_values *out);
/* Shapes of outputs and mutated inputs, then the reference's values; false with a message. */
bool ops_wanted(const ops_case *c, const ops_values *in, const int *types, ops_values *wanted);

bool ops_shape_is(const mx_array *x, const mx_shape_t *shape);
mx_shape_t ops_shape_of(const mx_array *x);
bool ops_mutates(const mx_op *op, int i);

#endif
