/* Gradients: the tape against finite differences, to second order.
 *
 * With random weights w and v, and inputs x:
 *     L(x)    = sum_k <out_k(x), w_k>            g_i    = dL / dx_i      from the tape
 *     S(x, w) = sum_i <g_i(x, w), v_i>           dS/dx, dS/dw            from the tape of the tape
 * Finite differences of L use the reference, those of S the tape gradient that was just verified.
 * Central differences with step 1e-5 are accurate to about 1e-9 on the scale of these samples.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ops_check.h"

#define STEP 1e-5
#define PLACES 40 /* elements of an input that are varied; all, if it has no more */
#define PLACES_SECOND 10

typedef struct job {
    const ops_case *c;
    mx_dtype dtype; /* in which the tape runs */
    int types[OPS_MAX_IN];
    ops_values x;              /* the inputs */
    ops_values w;              /* one weight per visible output; no elements where the output is not a float */
    ops_values v;              /* one weight per input gradient */
    ops_values scratch;        /* outputs of the reference */
    bool wanted[OPS_MAX_IN];   /* inputs that have a gradient */
    bool head[MX_MAX_OUTPUTS]; /* outputs that are floats */
    bool exact;                /* inputs and outputs are all float64: differences of the tape make sense */
} job;

/* Arrays of one run of the tape; all of them belong to the scope. */
typedef struct run {
    int n_vars, n_heads;
    int input[OPS_MAX_IN];                       /* of each variable */
    int output[MX_MAX_OUTPUTS];                  /* of each differentiated output */
    mx_array *vars[OPS_MAX_IN + MX_MAX_OUTPUTS]; /* inputs; then, for second order, the weights */
    mx_array *heads[MX_MAX_OUTPUTS], *weights[MX_MAX_OUTPUTS];
} run;

/* ---- the tape ------------------------------------------------------------------------------------------- */

static bool record(job *j, const int *types, run *r)
{
    mx_array *in[OPS_MAX_IN], *out[MX_MAX_OUTPUTS] = {NULL};
    r->n_vars = r->n_heads = 0;
    if (!ops_arrays(j->c, &j->x, types, false, in))
        return false;
    for (int k = 0; k < j->c->n_in; k++)
        if (j->wanted[k]) {
            if (mx_attach_grad(in[k], MX_GRAD_WRITE))
                return false;
            r->input[r->n_vars] = k;
            r->vars[r->n_vars++] = in[k];
        }
    mx_mode mode = mx_mode_enter(1, -1);
    mx_code code = ops_run(j->c, in, out);
    mx_mode_leave(&mode);
    if (code)
        return false;
    for (int i = 0; i < j->c->n_visible; i++)
        if (j->head[i]) {
            r->output[r->n_heads] = i;
            r->heads[r->n_heads] = out[i];
            r->weights[r->n_heads++] = ops_array(&j->w.shape[i], (mx_dtype)out[i]->dtype, j->w.v[i], false);
        }
    return true;
}

static bool read_gradients(const run *r, mx_array *const *g, ops_values *grads)
{
    for (int i = 0; i < r->n_vars; i++)
        if (!g[i] || mx_array_read_doubles(g[i], grads->v[r->input[i]], grads->size[r->input[i]]))
            return false;
    return true;
}

/* g_i for all wanted inputs; false with the error set. */
static bool tape_gradients(job *j, const int *types, bool create_graph, ops_values *grads)
{
    MX_SCOPE;
    run r;
    mx_array *g[OPS_MAX_IN];
    if (!record(j, types, &r))
        return false;
    mx_arrays heads = {r.heads, r.n_heads}, weights = {r.weights, r.n_heads};
    if (create_graph) {
        mx_arrays result = mx_grad_of(heads, (mx_arrays){r.vars, r.n_vars}, weights, false, true);
        return result.n == r.n_vars && read_gradients(&r, result.v, grads);
    }
    mx_backward_options options = {.head_grads = weights, .predict_mode = !j->c->train};
    if (mx_backward_all(heads, &options))
        return false;
    for (int i = 0; i < r.n_vars; i++)
        g[i] = mx_gradient(r.vars[i]);
    return read_gradients(&r, g, grads);
}

/* ---- finite differences --------------------------------------------------------------------------------- */

static double dot(const ops_values *a, const ops_values *b, const bool *use, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; use[i] && k < a->size[i]; k++)
            sum += a->v[i][k] * b->v[i][k];
    return sum;
}

static double loss(job *j)
{
    ops_reference(j->c, &j->x, &j->scratch);
    return dot(&j->scratch, &j->w, j->head, j->c->n_visible);
}

/* d f / d place, by varying *place */
static double difference(job *j, double *place, double (*f)(job *))
{
    const double x = *place;
    *place = x + STEP;
    double above = f(j);
    *place = x - STEP;
    double below = f(j);
    *place = x;
    return (above - below) / (2 * STEP);
}

/* Compares `got` with differences of f at some places of `at`. */
static int64_t compare_places(job *j, const char *what, int number, double *at, int64_t size, const double *got,
                              int64_t places, double (*f)(job *), double tolerance)
{
    const int64_t stride = size <= places ? 1 : size / places;
    char label[96];
    double scale = 1;
    int64_t checked = 0;
    snprintf(label, sizeof label, "%s %d", what, number);
    for (int64_t i = 0; i < size; i++)
        if (fabs(got[i]) > scale && isfinite(got[i]))
            scale = fabs(got[i]);
    for (int64_t i = 0; i < size; i += stride, checked++) {
        double wanted = difference(j, &at[i], f);
        if (!(fabs(got[i] - wanted) <= tolerance * (scale + fabs(wanted)))) {
            ops_fail(j->c, "%s, float64: element %lld is %.10g, finite differences give %.10g", label, (long long)i,
                     got[i], wanted);
            break;
        }
    }
    return checked;
}

/* ---- first order ---------------------------------------------------------------------------------------- */

static void check_first(job *j, const ops_values *grads)
{
    for (int k = 0; k < j->c->n_in; k++)
        if (j->wanted[k] && !j->c->integer[k])
            ops_total.gradients +=
                compare_places(j, "gradient of input", k, j->x.v[k], j->x.size[k], grads->v[k], PLACES, loss, 1e-5);
}

static void check_zero(job *j, const ops_values *grads)
{
    for (int k = 0; k < j->c->n_in; k++)
        for (int64_t i = 0; j->wanted[k] && i < grads->size[k]; i++, ops_total.gradients++)
            if (grads->v[k][i] != 0)
                return ops_fail(j->c, "gradient of input %d, element %lld is %g, wanted 0", k, (long long)i,
                                grads->v[k][i]);
}

/* Other float types, against float64 at the same inputs. */
static void check_other_type(const ops_case *c, job *exact, mx_dtype dtype)
{
    job j = *exact;
    ops_values rounded, wanted, got;
    mx_dtype found;
    int types[OPS_MAX_IN];
    if ((c->f32_only && dtype != MX_FLOAT32) || !ops_draw(c, dtype, &rounded))
        return;
    j.x = rounded;
    ops_values_copy(&wanted, &j.x);
    ops_values_copy(&got, &j.x);
    if (!ops_first_type(c, (mx_dtype[]){dtype, MX_DTYPE_NONE}, &found, types) ||
        !tape_gradients(&j, exact->types, false, &wanted))
        mx_error_clear();
    else if (!tape_gradients(&j, types, false, &got)) {
        ops_fail(c, "gradient in %s: %s", mx_dtype_name(dtype), mx_error_message());
        mx_error_clear();
    } else
        for (int k = 0; k < c->n_in; k++)
            if (j.wanted[k])
                ops_compare(c, "gradient", dtype, got.v[k], wanted.v[k], got.size[k], 8 * ops_tolerance(dtype));
    ops_values_free(&wanted);
    ops_values_free(&got);
    ops_values_free(&rounded);
}

/* ---- second order --------------------------------------------------------------------------------------- */

/* S by the fused first-order gradient. */
static double slope(job *j)
{
    ops_values grads;
    ops_values_copy(&grads, &j->x);
    double sum = NAN;
    if (tape_gradients(j, j->types, false, &grads))
        sum = dot(&grads, &j->v, j->wanted, j->c->n_in);
    ops_values_free(&grads);
    return sum;
}

/* dS/dx into gx, dS/dw into gw; false with the error set. */
static bool tape_second(job *j, ops_values *gx, ops_values *gw)
{
    MX_SCOPE;
    run r;
    mx_array *heads[OPS_MAX_IN], *weights[OPS_MAX_IN];
    int n = 0;
    if (!record(j, j->types, &r))
        return false;
    for (int i = 0; i < r.n_heads; i++) {
        if (mx_attach_grad(r.weights[i], MX_GRAD_WRITE))
            return false;
        r.vars[r.n_vars + i] = r.weights[i];
    }
    mx_arrays first = mx_grad_of((mx_arrays){r.heads, r.n_heads}, (mx_arrays){r.vars, r.n_vars},
                                 (mx_arrays){r.weights, r.n_heads}, true, true);
    if (first.n != r.n_vars)
        return false;
    for (int i = 0; i < r.n_vars; i++)
        if (first.v[i]->node) { /* the others do not depend on anything */
            heads[n] = first.v[i];
            weights[n++] = ops_array(&j->x.shape[r.input[i]], (mx_dtype)first.v[i]->dtype, j->v.v[r.input[i]], false);
        }
    if (!n)
        return true;
    mx_arrays second = mx_grad_of((mx_arrays){heads, n}, (mx_arrays){r.vars, r.n_vars + r.n_heads},
                                  (mx_arrays){weights, n}, false, false);
    if (second.n != r.n_vars + r.n_heads || !read_gradients(&r, second.v, gx))
        return false;
    for (int i = 0; i < r.n_heads; i++)
        if (mx_array_read_doubles(second.v[r.n_vars + i], gw->v[r.output[i]], gw->size[r.output[i]]))
            return false;
    return true;
}

/* Pointwise and view operators, and all that have no fused backward operator, are compositions: they must have it. The
 * exceptions: fused under another name, and the end of the chain of polygamma functions. */
static bool may_lack_second_order(const mx_op *op)
{
    static const char *const exceptions[] = {"CTCLoss", "SpatialTransformer", "_contrib_ModulatedDeformableConvolution",
                                             "_trigamma"};
    char name[128];
    snprintf(name, sizeof name, "_backward_%s", op->name);
    bool fused = false;
    for (int i = 0; mx_op_at(i); i++)
        fused |= !strcmp(mx_op_at(i)->name, name);
    for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++)
        if (!strcmp(op->name, exceptions[i]))
            return true;
    return fused && !(op->flags & (MX_OP_INPLACE | MX_OP_VIEW));
}

static void judge_missing_second_order(const ops_case *c)
{
    static const mx_op *listed;
    const char *message = mx_error_message();
    bool said = mx_error_code() == MX_ERR_AUTOGRAD &&
                (strstr(message, "no second-order gradient") || strstr(message, "no gradient of this order"));
    if (!said || !may_lack_second_order(c->op))
        ops_fail(c, "second order: %s", mx_error_message());
    else if (listed != c->op) {
        ops_total.second_order_missing++;
        printf("  %s has no second-order gradient\n", c->op->name);
        listed = c->op;
    }
    mx_error_clear();
}

static void check_second(job *j, const ops_values *first)
{
    ops_values graph, gx, gw;
    ops_values_copy(&graph, first);
    ops_values_copy(&gx, first);
    ops_values_copy(&gw, &j->w);
    for (int k = 0; k < gx.n; k++)
        if (gx.v[k])
            memset(gx.v[k], 0, (size_t)gx.size[k] * sizeof(double));
    for (int k = 0; k < gw.n; k++)
        memset(gw.v[k], 0, (size_t)gw.size[k] * sizeof(double));
    if (!tape_gradients(j, j->types, true, &graph) || !tape_second(j, &gx, &gw))
        judge_missing_second_order(j->c);
    else {
        for (int k = 0; k < j->c->n_in; k++)
            if (j->wanted[k])
                ops_compare(j->c, "gradient with create_graph", MX_FLOAT64, graph.v[k], first->v[k], first->size[k],
                            1e-8);
        for (int k = 0; k < j->c->n_in; k++)
            if (j->exact && j->wanted[k] && !j->c->integer[k])
                ops_total.second_orders += compare_places(j, "second order, input", k, j->x.v[k], j->x.size[k], gx.v[k],
                                                          PLACES_SECOND, slope, 2e-5);
        for (int i = 0; i < j->c->n_visible; i++)
            if (j->exact && j->head[i])
                ops_total.second_orders += compare_places(j, "second order, weight of output", i, j->w.v[i],
                                                          j->w.size[i], gw.v[i], PLACES_SECOND, slope, 2e-5);
    }
    ops_values_free(&graph);
    ops_values_free(&gx);
    ops_values_free(&gw);
}

/* ---- one sample ----------------------------------------------------------------------------------------- */

static void fill_random(ops_values *values, uint64_t state)
{
    for (int i = 0; i < values->n; i++)
        for (int64_t k = 0; values->v[i] && k < values->size[i]; k++)
            values->v[i][k] = (float)(2 * ops_random(&state) - 1);
}

static bool prepare(const ops_case *c, job *j)
{
    static const mx_dtype floats[] = {MX_FLOAT64, MX_FLOAT32, MX_DTYPE_NONE};
    mx_shape_t shapes[MX_MAX_OUTPUTS];
    int out_types[MX_MAX_OUTPUTS];
    bool any_head = false, any_input = false;
    *j = (job){.c = c, .exact = true};
    if (!ops_first_type(c, floats, &j->dtype, j->types) || !ops_draw(c, MX_FLOAT32, &j->x))
        return false;
    if (!ops_infer(c, &j->x, j->types, shapes, out_types)) {
        mx_error_clear();
        ops_values_free(&j->x);
        return false;
    }
    for (int i = 0; i < c->n_out; i++)
        ops_values_add(&j->scratch, &shapes[i]);
    for (int i = 0; i < c->n_visible; i++) {
        ops_values_add(&j->w, &shapes[i]);
        any_head |= j->head[i] = mx_dtype_is_float(out_types[i]);
        j->exact &= out_types[i] == MX_FLOAT64 || !j->head[i];
    }
    for (int k = 0; k < c->n_in; k++) {
        j->wanted[k] = !c->absent[k] && !(k < 32 && (c->op->no_grad_inputs >> k & 1)) && !ops_mutates(c->op, k) &&
                       mx_dtype_is_float(j->types[k]);
        any_input |= j->wanted[k];
        j->exact &= !j->wanted[k] || j->types[k] == MX_FLOAT64;
        if (ops_mutates(c->op, k) && !c->absent[k])
            ops_values_add(&j->scratch, &c->shape[k]);
    }
    ops_values_copy(&j->v, &j->x);
    fill_random(&j->w, ops_seed(c, 1000));
    fill_random(&j->v, ops_seed(c, 2000));
    return any_head && any_input;
}

static void finish(job *j)
{
    ops_values_free(&j->x);
    ops_values_free(&j->w);
    ops_values_free(&j->v);
    ops_values_free(&j->scratch);
}

/* An operator without a gradient must report an error. */
static void check_refusal(job *j, ops_values *grads)
{
    if (tape_gradients(j, j->types, false, grads))
        ops_fail(j->c, "has no gradient, but backward succeeded");
    else
        ops_check_error(j->c, "backward without a gradient");
}

void ops_check_gradients(const ops_case *c)
{
    job j;
    ops_values grads;
    if (!prepare(c, &j))
        return finish(&j);
    ops_values_copy(&grads, &j.x);
    if (c->op->flags & MX_OP_NO_GRADIENT)
        check_refusal(&j, &grads);
    else if (!tape_gradients(&j, j.types, false, &grads)) {
        ops_fail(c, "gradient: %s", mx_error_message());
        mx_error_clear();
    } else if (c->op->flags & MX_OP_ZERO_GRADIENT)
        check_zero(&j, &grads);
    else if (!c->nograd && !c->random && c->op->reference && j.dtype == MX_FLOAT64) {
        check_first(&j, &grads);
        check_other_type(c, &j, MX_FLOAT32);
        check_other_type(c, &j, MX_FLOAT16);
        check_other_type(c, &j, MX_BFLOAT16);
        check_second(&j, &grads);
    }
    ops_values_free(&grads);
    finish(&j);
}
