/* The second half of the layout pass: rewrites the selected steps to blocked values (see layout.c).
 *
 *     y = Convolution(x, w, b)
 *         ->  w' = _block_weight(w); y' = _blocked_convolution(x', w', b); y = _from_blocked(y')
 *
 * Every blocked value is a new value, computed where the unblocked one was; conversions are inserted once, where they
 * are first needed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/op.gen.h"
#include "pass/layout.h"

typedef struct rewriter {
    mx_layout *l;
    MX_VEC(mx_step) steps; /* of the new program */
} rewriter;

static const mx_value *value_of(const rewriter *r, int32_t v) { return &r->l->program->values.items[v]; }

/* A step of one result; attrs are copied. */
static mx_code push(rewriter *r, mx_op *op, const void *attrs, int n_in, const int32_t *in, int32_t out,
                    const char *name)
{
    mx_program *program = r->l->program;
    int32_t *lists = mx_program_alloc(program, (size_t)(n_in + 1) * sizeof *lists);
    void *own = mx_program_alloc(program, op->schema->size);
    if (!lists || !own || out < 0)
        return MX_ERR_MEMORY;
    memcpy(lists, in, (size_t)n_in * sizeof *lists);
    memcpy(own, attrs, op->schema->size);
    lists[n_in] = out;
    const mx_step step = {
        .op = op, .attrs = own, .in = lists, .n_in = n_in, .out = lists + n_in, .n_out = 1, .name = name};
    return mx_vec_push(&r->steps, step) ? MX_OK : MX_ERR_MEMORY;
}

/* ---- blocked values ---------------------------------------------------------------------------------------------- */

static int32_t new_blocked(rewriter *r, int32_t v)
{
    const mx_shape_t s = value_of(r, v)->shape;
    const int64_t block = r->l->block;
    const mx_shape_t form = {.ndim = 5, .dim = {s.dim[0], (s.dim[1] + block - 1) / block, s.dim[2], s.dim[3], block}};
    return r->l->form[v] = mx_program_value(r->l->program, &form, MX_FLOAT32);
}

/* The blocked form of a value; converts it if necessary. */
static int32_t blocked(rewriter *r, int32_t v, const char *name)
{
    if (r->l->form[v] >= 0)
        return r->l->form[v];
    const mx_to_blocked_attrs attrs = {.block = r->l->block};
    const int32_t form = new_blocked(r, v);
    return form < 0 || push(r, MX_OP("_to_blocked"), &attrs, 1, &v, form, name) ? -1 : form;
}

/* The step's result exists in blocked form; converts it back if some step reads it unblocked. */
static mx_code unblock(rewriter *r, int32_t v, const char *name)
{
    const mx_from_blocked_attrs attrs = {.channels = value_of(r, v)->shape.dim[1]};
    return r->l->unblocked[v] ? push(r, MX_OP("_from_blocked"), &attrs, 1, &r->l->form[v], v, name) : MX_OK;
}

/* ---- convolutions ------------------------------------------------------------------------------------------------ */

/* w (O, C, KH, KW) blocked according to `form`; -1: out of memory. */
static int32_t block_weight(rewriter *r, int32_t w, int form, const char *name)
{
    const int64_t b = r->l->block;
    const mx_shape_t s = value_of(r, w)->shape;
    const int64_t blocks = (s.dim[0] + b - 1) / b, kh = s.dim[2], kw = s.dim[3];
    const mx_shape_t shapes[] = {{.ndim = 6, .dim = {blocks, (s.dim[1] + b - 1) / b, kh, kw, b, b}},
                                 {.ndim = 5, .dim = {blocks, s.dim[1], kh, kw, b}},
                                 {.ndim = 4, .dim = {blocks, kh, kw, b}},
                                 {.ndim = 5, .dim = {16, blocks, (s.dim[1] + b - 1) / b, b, b}}};
    const mx_block_weight_attrs attrs = {.block = b, .form = form};
    const int32_t out = mx_program_value(r->l->program, &shapes[form], MX_FLOAT32);
    return out < 0 || push(r, MX_OP("_block_weight"), &attrs, 1, &w, out, name) ? -1 : out;
}

static mx_code convolve(rewriter *r, const mx_step *step, mx_layout_kind kind)
{
    const mx_convolution_attrs *a = step->attrs;
    static const int forms[] = {[MX_LAYOUT_CONV] = MX_BLOCK_WEIGHT_BLOCKED,
                                [MX_LAYOUT_WINOGRAD] = MX_BLOCK_WEIGHT_WINOGRAD,
                                [MX_LAYOUT_FIRST] = MX_BLOCK_WEIGHT_PLAIN,
                                [MX_LAYOUT_DEPTHWISE] = MX_BLOCK_WEIGHT_DEPTHWISE};
    const int form = forms[kind];
    const mx_blocked_convolution_attrs attrs = {.stride = a->stride,
                                                .dilate = a->dilate,
                                                .pad = a->pad,
                                                .channels = a->num_filter,
                                                .high = NAN,
                                                .low = strcmp(step->op->name, "Convolution") ? 0 : NAN};
    const int32_t in[4] = {kind == MX_LAYOUT_FIRST ? step->in[0] : blocked(r, step->in[0], step->name),
                           block_weight(r, step->in[1], form, step->name),
                           a->no_bias || step->n_in < 3 ? -1 : step->in[2], -1};
    if (in[0] < 0 || in[1] < 0)
        return MX_ERR_MEMORY;
    return push(r, MX_OP("_blocked_convolution"), &attrs, 4, in, new_blocked(r, step->out[0]), step->name);
}

/* A constant of ones, (channels, 1, 1, 1). */
static int32_t ones(rewriter *r, int64_t channels)
{
    const mx_shape_t shape = {.ndim = 4, .dim = {channels, 1, 1, 1}};
    mx_array *x = mx_array_new(&shape, MX_FLOAT32, r->l->program->context);
    const int32_t v = x && !mx_array_fill(x, 1) ? mx_program_constant(r->l->program, x) : -1;
    mx_release(x);
    return v;
}

/* s = gamma / sqrt(var + eps): y = s x + (beta - mean s), a convolution of one tap per channel. */
static mx_code normalise(rewriter *r, const mx_step *step)
{
    const mx_batch_norm_attrs *a = step->attrs;
    const int64_t channels = value_of(r, step->in[0])->shape.dim[1];
    mx_program *program = r->l->program;
    const mx_shape_t wide = {.ndim = 4, .dim = {channels, 1, 1, 1}}, flat = {.ndim = 1, .dim = {channels}};
    const int32_t one = ones(r, channels), scale = mx_program_value(program, &wide, MX_FLOAT32),
                  shift = mx_program_value(program, &flat, MX_FLOAT32);
    int32_t *lists = mx_program_alloc(program, 8 * sizeof *lists);
    mx_fold_norm_attrs *folding = mx_program_alloc(program, sizeof *folding);
    if (one < 0 || scale < 0 || shift < 0 || !lists || !folding)
        return MX_ERR_MEMORY;
    *folding = (mx_fold_norm_attrs){.eps = a->eps, .fix_gamma = a->fix_gamma};
    const int32_t list[8] = {one, step->in[1], step->in[2], step->in[3], step->in[4], -1, scale, shift};
    memcpy(lists, list, sizeof list);
    const mx_step fold = {.op = MX_OP("_fold_norm"),
                          .attrs = folding,
                          .in = lists,
                          .n_in = 6,
                          .out = lists + 6,
                          .n_out = 2,
                          .name = step->name};
    if (!mx_vec_push(&r->steps, fold))
        return MX_ERR_MEMORY;
    const mx_blocked_convolution_attrs attrs = {.channels = channels, .low = NAN, .high = NAN};
    const int32_t in[4] = {blocked(r, step->in[0], step->name),
                           block_weight(r, scale, MX_BLOCK_WEIGHT_DEPTHWISE, step->name), shift, -1};
    if (in[0] < 0 || in[1] < 0)
        return MX_ERR_MEMORY;
    return push(r, MX_OP("_blocked_convolution"), &attrs, 4, in, new_blocked(r, step->out[0]), step->name);
}

/* ---- the others -------------------------------------------------------------------------------------------------- */

static mx_code pool(rewriter *r, const mx_step *step)
{
    const mx_pooling_attrs *a = step->attrs;
    const mx_shape_t x = value_of(r, step->in[0])->shape, y = value_of(r, step->out[0])->shape;
    mx_blocked_pooling_attrs attrs = {.kernel = a->kernel,
                                      .stride = a->stride,
                                      .pad = a->pad,
                                      .pool_type = a->pool_type,
                                      .count_include_pad = a->count_include_pad};
    if (a->global_pool)
        attrs.kernel = MX_DIMS(x.dim[2], x.dim[3]), attrs.stride.n = attrs.pad.n = 0;
    attrs.size = MX_DIMS(y.dim[2], y.dim[3]);
    const int32_t in = blocked(r, step->in[0], step->name);
    return in < 0 ? MX_ERR_MEMORY
                  : push(r, MX_OP("_blocked_pooling"), &attrs, 1, &in, new_blocked(r, step->out[0]), step->name);
}

static mx_code keep(rewriter *r, const mx_step *step)
{
    mx_step same = *step;
    int32_t *lists = mx_program_alloc(r->l->program, (size_t)(step->n_in + 1) * sizeof *lists);
    if (!lists)
        return MX_ERR_MEMORY;
    for (int k = 0; k < step->n_in; k++)
        if ((lists[k] = blocked(r, step->in[k], step->name)) < 0)
            return MX_ERR_MEMORY;
    if ((lists[step->n_in] = new_blocked(r, step->out[0])) < 0)
        return MX_ERR_MEMORY;
    same.in = lists, same.out = lists + step->n_in;
    return mx_vec_push(&r->steps, same) ? MX_OK : MX_ERR_MEMORY;
}

static mx_code rewrite_step(rewriter *r, const mx_step *step, mx_layout_kind kind)
{
    mx_code code = MX_OK;
    switch (kind) {
    case MX_LAYOUT_NONE: return mx_vec_push(&r->steps, *step) ? MX_OK : MX_ERR_MEMORY;
    case MX_LAYOUT_NORM: code = normalise(r, step); break;
    case MX_LAYOUT_POOL: code = pool(r, step); break;
    case MX_LAYOUT_SAME: code = keep(r, step); break;
    default: code = convolve(r, step, kind); break;
    }
    return code ? code : unblock(r, step->out[0], step->name);
}

mx_code mx_layout_rewrite(mx_layout *l)
{
    rewriter r = {.l = l};
    mx_program *program = l->program;
    mx_code code = MX_OK;
    for (int64_t v = 0; v < program->values.length; v++)
        l->form[v] = -1;
    for (int64_t i = 0; !code && i < program->steps.length; i++)
        code = rewrite_step(&r, &program->steps.items[i], l->kind[i]);
    if (code) {
        mx_vec_free(&r.steps);
        return code;
    }
    mx_vec_free(&program->steps);
    program->steps.items = r.steps.items, program->steps.length = r.steps.length;
    program->steps.capacity = r.steps.capacity;
    program->forward = program->steps.length;
    mx_program_count(program);
    return MX_OK;
}
