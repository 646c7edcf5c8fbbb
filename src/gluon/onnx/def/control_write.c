/* Loops and conditions as ONNX has them.  SPDX-License-Identifier: Apache-2.0
 *
 *     _foreach      Scan: the states, then the rows of the data
 *     _while_loop   Loop: the condition is computed before it and at the end of each step; the results of its steps get the
 *                   rows of zeros that ours have
 *     _cond         If */
#include "gluon/onnx/write_graph.h"

#include "exec/list.h"

static mx_onnx_operand *new_operands(int64_t n) /* belongs to the scope */
{
    return (mx_onnx_operand *)(void *)mx_list_new((int64_t)((size_t)n * sizeof(mx_onnx_operand) / sizeof(void *) + 1));
}

/* The inputs as operands, and room for the results of a part. */
static mx_code start(mx_onnx_out *o, const mx_control **c, mx_onnx_operand **in, mx_onnx_operand **results)
{
    *c = mx_control_of(o->node->op, o->attrs);
    if (!*c)
        return mx_onnx_refuse(o, "it has no subgraphs");
    *in = new_operands(o->n_in);
    *results = new_operands((*c)->n_out + 1);
    if (!*in || !*results)
        return mx_error_code();
    mx_onnx_operands(o, *in);
    return MX_OK;
}

/* ---- foreach --------------------------------------------------------------------------------------------------- */

/* The row of data i in the body; ONNX has numbers where ours have one element. */
static void take_row(mx_onnx_out *o, mx_onnx_body *body, mx_onnx_operand *x)
{
    mx_shape_t row = {.ndim = x->shape.ndim < 0 ? -1 : x->shape.ndim - 1};
    for (int k = 0; k < row.ndim; k++)
        row.dim[k] = x->shape.dim[k + 1];
    x->name = mx_onnx_body_input(o, body, &row, x->type);
    x->value = NULL;
    x->shape = row;
    if (!row.ndim) {
        x->name = mx_onnx_put(o, NULL, "Unsqueeze", x->name, mx_onnx_put_ints(o, MX_ONNX_LIST(0)));
        x->shape = (mx_shape_t){.ndim = 1, .dim = {1}};
    }
}

static void take_states(mx_onnx_out *o, mx_onnx_body *body, const mx_control *c, mx_onnx_operand *in)
{
    for (int s = 0; s < c->n_states; s++) {
        mx_onnx_operand *x = &in[c->state[s]];
        x->name = mx_onnx_body_input(o, body, &x->shape, x->type);
        x->value = NULL;
    }
}

/* A body's states, then its other results. */
static void give_results(mx_onnx_out *o, mx_onnx_body *body, const mx_control *c, const mx_onnx_operand *results)
{
    for (int s = 0; s < c->n_states; s++)
        mx_onnx_body_output(o, body, &results[c->n_out_data + s]);
    for (int k = 0; k < c->n_out_data; k++)
        mx_onnx_body_output(o, body, &results[k]);
}

static mx_code write_foreach(mx_onnx_out *o)
{
    const mx_control *c;
    mx_onnx_operand *in, *results;
    mx_onnx_body body;
    if (start(o, &c, &in, &results))
        return mx_error_code();
    const char **names = (const char **)(void *)mx_list_new(o->n_in);
    if (!names)
        return mx_error_code();
    mx_onnx_begin_body(o, &body);
    take_states(o, &body, c, in);
    for (int i = 0; i < c->n_data; i++)
        take_row(o, &body, &in[i]);
    mx_code code = mx_onnx_write_part(o, &c->parts[0], in, results);
    if (!code)
        give_results(o, &body, c, results);
    mx_text graph = mx_onnx_end_body(o, &body);
    for (int s = 0; s < c->n_states; s++)
        names[s] = o->in[c->state[s]];
    for (int i = 0; i < c->n_data; i++)
        names[c->n_states + i] = o->in[i];
    const int first = c->n_states ? c->n_out_data : 0;
    mx_onnx_node(o, o->out[first], "Scan", c->n_states + c->n_data, names);
    for (int k = 1; k < c->n_out; k++)
        mx_onnx_more(o, o->out[(first + k) % c->n_out]);
    mx_onnx_set_graph(o, "body", &graph);
    mx_onnx_set_int(o, "num_scan_inputs", c->n_data);
    return code ? code : mx_onnx_done(o);
}

/* ---- while loop ------------------------------------------------------------------------------------------------ */

/* The shape that results of the steps have, with `rows` rows.  Sizes that are not known are those of a step that runs for
 * this only: of a loop without steps, ONNX does not know them. */
static const char *wanted_shape(mx_onnx_out *o, const mx_shape_t *shape, const mx_onnx_operand *step, int64_t rows)
{
    int64_t sizes[MX_MAX_NDIM];
    sizes[0] = rows;
    for (int i = 1; i < shape->ndim; i++)
        sizes[i] = shape->dim[i];
    if (!step->name)
        return mx_onnx_put_ints(o, shape->ndim, sizes);
    const char *all = mx_onnx_put(o, NULL, "Concat", mx_onnx_put_ints(o, MX_ONNX_LIST(rows)),
                                  mx_onnx_put(o, NULL, "Shape", step->name));
    mx_onnx_set_int(o, "axis", 0);
    return all;
}

/* Results (steps, ...) with zeros behind them, up to the wanted shape. */
static void pad_rows(mx_onnx_out *o, const char *out, const char *x, int rank, const char *shape)
{
    const int64_t zeros[MX_MAX_NDIM] = {0};
    const char *missing = mx_onnx_put(o, NULL, "Sub", shape, mx_onnx_put(o, NULL, "Shape", x));
    const char *pads = mx_onnx_put(o, NULL, "Concat", mx_onnx_put_ints(o, rank, zeros), missing);
    mx_onnx_set_int(o, "axis", 0);
    mx_onnx_put(o, out, "Pad", x, pads);
}

/* The results of a first step outside of the loop, if sizes are not known without it. */
static mx_code try_step(mx_onnx_out *o, const mx_control *c, const mx_onnx_operand *in, mx_onnx_operand *results)
{
    bool known = true;
    for (int k = 0; k < c->n_out_data; k++) {
        if (o->out_shape[k].ndim < 1)
            return mx_onnx_refuse(o, "the number of axes of its results is not known; give the shapes of the inputs");
        known &= mx_shape_known(&o->out_shape[k]);
    }
    return known ? MX_OK : mx_onnx_write_part(o, &c->parts[1], in, results);
}

/* The condition on these operands as a bool. */
static mx_code put_condition(mx_onnx_out *o, const mx_control *c, const mx_onnx_operand *in, mx_onnx_operand *condition)
{
    mx_code code = mx_onnx_write_part(o, &c->parts[0], in, condition);
    if (code)
        return code;
    const char *flat = mx_onnx_put(o, NULL, "Reshape", condition->name, mx_onnx_put_ints(o, MX_ONNX_LIST(1)));
    flat = mx_onnx_put(o, NULL, "Squeeze", flat, mx_onnx_put_ints(o, MX_ONNX_LIST(0)));
    *condition = (mx_onnx_operand){mx_onnx_put_cast(o, NULL, flat, MX_BOOL), {.ndim = 0}, MX_BOOL, NULL};
    return mx_onnx_done(o);
}

static mx_code write_loop_body(mx_onnx_out *o, const mx_control *c, mx_onnx_operand *in, mx_onnx_operand *results,
                               mx_text *graph)
{
    const mx_shape_t number = {.ndim = 0};
    mx_onnx_body body;
    mx_onnx_operand condition;
    mx_onnx_begin_body(o, &body);
    mx_onnx_body_input(o, &body, &number, MX_INT64);
    mx_onnx_body_input(o, &body, &number, MX_BOOL);
    take_states(o, &body, c, in);
    mx_code code = mx_onnx_write_part(o, &c->parts[1], in, results);
    for (int s = 0; !code && s < c->n_states; s++)
        in[c->state[s]].name = results[c->n_out_data + s].name;
    code = code ? code : put_condition(o, c, in, &condition);
    if (!code) {
        mx_onnx_body_output(o, &body, &condition);
        give_results(o, &body, c, results);
    }
    *graph = mx_onnx_end_body(o, &body);
    return code;
}

static mx_code write_while_loop(mx_onnx_out *o)
{
    const mx_control *c;
    mx_onnx_operand *in, *results, condition;
    if (start(o, &c, &in, &results) || put_condition(o, c, in, &condition))
        return mx_error_code();
    mx_onnx_operand *first = new_operands(c->n_out + 1);
    if (!first || try_step(o, c, in, first))
        return mx_error_code();
    const char **names = (const char **)(void *)mx_list_new(c->n_states + 2 + c->n_out_data), **raw;
    mx_text graph = {0};
    mx_code code = names ? write_loop_body(o, c, in, results, &graph) : mx_error_code();
    if (code)
        return mx_text_free(&graph), code;
    raw = names + c->n_states + 2;
    names[0] = mx_onnx_put_number(o, (double)c->max_iterations, MX_INT64);
    names[1] = condition.name;
    for (int s = 0; s < c->n_states; s++)
        names[s + 2] = o->in[c->state[s]];
    mx_onnx_node(o, o->out[c->n_out_data], "Loop", c->n_states + 2, names);
    for (int s = 1; s < c->n_states; s++)
        mx_onnx_more(o, o->out[c->n_out_data + s]);
    for (int k = 0; k < c->n_out_data; k++)
        raw[k] = mx_onnx_more(o, NULL);
    mx_onnx_set_graph(o, "body", &graph);
    for (int k = 0; k < c->n_out_data; k++)
        pad_rows(o, o->out[k], raw[k], o->out_shape[k].ndim,
                 wanted_shape(o, &o->out_shape[k], &first[k], c->max_iterations));
    return mx_onnx_done(o);
}

/* ---- condition ------------------------------------------------------------------------------------------------- */

static mx_code write_branch(mx_onnx_out *o, const mx_control *c, int part, const mx_onnx_operand *in,
                            mx_onnx_operand *results, mx_text *graph)
{
    mx_onnx_body body;
    mx_onnx_begin_body(o, &body);
    mx_code code = mx_onnx_write_part(o, &c->parts[part], in, results);
    for (int k = 0; !code && k < c->n_out; k++)
        mx_onnx_body_output(o, &body, &results[k]);
    *graph = mx_onnx_end_body(o, &body);
    return code;
}

static mx_code write_cond(mx_onnx_out *o)
{
    const mx_control *c;
    mx_onnx_operand *in, *results, condition;
    mx_text graphs[2] = {{0}, {0}};
    if (start(o, &c, &in, &results) || put_condition(o, c, in, &condition))
        return mx_error_code();
    mx_code code = write_branch(o, c, 1, in, results, &graphs[0]);
    code = code ? code : write_branch(o, c, 2, in, results, &graphs[1]);
    mx_onnx_put(o, o->out[0], "If", condition.name);
    for (int k = 1; k < c->n_out; k++)
        mx_onnx_more(o, o->out[k]);
    mx_onnx_set_graph(o, "then_branch", &graphs[0]);
    mx_onnx_set_graph(o, "else_branch", &graphs[1]);
    return code ? code : mx_onnx_done(o);
}

const mx_onnx_row mx_onnx_control_write[] = {WRITE("Scan", "_foreach", write_foreach),
                                             WRITE("Loop", "_while_loop", write_while_loop),
                                             WRITE("If", "_cond", write_cond),
                                             {0}};
