/* Resizing: rows are resampled along x once, stored in a ring buffer, and blended along y.
 *
 *     source row r  --along x-->  ring[r % slots]  --weights of y-->  output row
 *
 * Bytes and float32 are computed in float32, float64 in float64; 16-bit floats are widened.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/level.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"
#include "op/formula/image.h"
#include "op/formula/resample.h"

/* Weights of one axis for all output cells, `most` per cell; missing ones are 0. */
typedef struct table {
    int64_t most;
    int64_t *cell;  /* (out, most): source cells, clamped */
    double *weight; /* (out, most) */
    float *single;  /* the same in float32 */
    size_t bytes;   /* of the allocation that begins at `cell` */
} table;

typedef struct resize_job {
    const void *from;
    void *to;
    mx_image_size in, out;
    table rows, columns;
    char *scratch;       /* one ring per part */
    size_t scratch_each; /* bytes of a ring */
} resize_job;

static mx_code make_table(table *t, const mx_resample *r)
{
    t->most = mx_resample_most(r);
    const size_t n = (size_t)r->out * (size_t)t->most;
    t->bytes = n * (sizeof *t->cell + sizeof *t->weight + sizeof *t->single);
    if (!(t->cell = mx_alloc(t->bytes)))
        return MX_ERR_MEMORY;
    t->weight = (double *)(t->cell + n);
    t->single = (float *)(t->weight + n);
    for (int64_t i = 0; i < r->out; i++) {
        int64_t first, *cell = t->cell + i * t->most;
        double *weight = t->weight + i * t->most;
        const int64_t count = mx_resample_weights(r, i, &first, weight);
        for (int64_t k = 0; k < t->most; k++) {
            weight[k] = k < count ? weight[k] : 0;
            cell[k] = mx_resample_clamp(r, first + (k < count ? k : count - 1));
            t->single[i * t->most + k] = (float)weight[k];
        }
    }
    return MX_OK;
}

static inline uint8_t store_byte(float x) { return (uint8_t)(x <= 0 ? 0 : x >= 255 ? 255 : x + 0.5f); }
static inline float store_float(float x) { return x; }
static inline double store_double(double x) { return x; }

#define PIECE 512 /* elements of a row that are blended at once */
#define PASTE2(a, b) a##_##b
#define PASTE(a, b) PASTE2(a, b)
#define NAME(x) PASTE(x, T)
#define T uint8_t
#define ACC float
#define WEIGHTS single
#define STORE store_byte
#include "cpu/kernels/image/image_resize_body.h"
#define T float
#define ACC float
#define WEIGHTS single
#define STORE store_float
#include "cpu/kernels/image/image_resize_body.h"
#define T double
#define ACC double
#define WEIGHTS weight
#define STORE store_double
#include "cpu/kernels/image/image_resize_body.h"

static mx_code resize_with(resize_job *j, int interp, mx_dtype type)
{
    const bool shrinks = j->out.height <= j->in.height && j->out.width <= j->in.width;
    const mx_resample rows = mx_resample_axis(interp, j->in.height, j->out.height, shrinks),
                      columns = mx_resample_axis(interp, j->in.width, j->out.width, shrinks);
    const int64_t row = j->out.width * j->out.channels;
    const size_t item = type == MX_FLOAT64 ? sizeof(double) : sizeof(float);
    int64_t parts = j->out.images * j->out.height * row / MX_GRAIN + 1;
    parts = parts < mx_num_threads() ? parts : mx_num_threads();
    mx_code code = make_table(&j->rows, &rows);
    if (!code)
        code = make_table(&j->columns, &columns);
    if (!code) {
        j->scratch_each = (size_t)j->rows.most * ((size_t)row * item + sizeof(int64_t));
        j->scratch_each = (j->scratch_each + MX_ALIGN - 1) / MX_ALIGN * MX_ALIGN;
        j->scratch = mx_alloc((size_t)parts * j->scratch_each);
        code = j->scratch ? MX_OK : MX_ERR_MEMORY;
    }
    if (!code)
        mx_parallel_parts((int)parts,
                          type == MX_UINT8     ? rows_uint8_t
                          : type == MX_FLOAT64 ? rows_double
                                               : rows_float,
                          j);
    mx_free(j->scratch, (size_t)parts * j->scratch_each);
    mx_free(j->columns.cell, j->columns.bytes);
    mx_free(j->rows.cell, j->rows.bytes);
    return code;
}

/* 16-bit floats: widened, resized, narrowed. */
static mx_code resize_narrow(resize_job *j, int interp, const mx_array *x, mx_array *y)
{
    const mx_dtype type = (mx_dtype)x->dtype;
    const size_t in_bytes = (size_t)x->size * sizeof(float), out_bytes = (size_t)y->size * sizeof(float);
    float *from = mx_alloc(in_bytes), *to = mx_alloc(out_bytes);
    mx_code code = from && to ? MX_OK : MX_ERR_MEMORY;
    if (!code) {
        mx_convert(from, MX_FLOAT32, mx_data(x), type, x->size);
        j->from = from, j->to = to;
        code = resize_with(j, interp, MX_FLOAT32);
    }
    if (!code)
        mx_convert(mx_data(y), type, to, MX_FLOAT32, y->size);
    mx_free(from, in_bytes);
    mx_free(to, out_bytes);
    return code;
}

static mx_code run(const mx_kernel_call *call, int interp)
{
    const mx_array *x = call->in[0];
    mx_array *y = call->out[0];
    resize_job j = {.from = mx_data(x), .to = mx_data(y), .in = mx_image_size_of(x->ndim, x->shape),
                    .out = mx_image_size_of(y->ndim, y->shape)};
    if (x->dtype == MX_FLOAT16 || x->dtype == MX_BFLOAT16)
        return resize_narrow(&j, interp, x, y);
    if (x->dtype != MX_UINT8 && x->dtype != MX_FLOAT32 && x->dtype != MX_FLOAT64)
        return MX_DECLINED;
    return resize_with(&j, interp, (mx_dtype)x->dtype);
}

static mx_code run_resize(const mx_kernel_call *call)
{
    return run(call, (int)((const mx_image_resize_attrs *)call->attrs)->interp);
}
static mx_code run_cv_resize(const mx_kernel_call *call)
{
    return run(call, (int)((const mx_cvimresize_attrs *)call->attrs)->interp);
}

MX_CPU_KERNELS(image_resize) = {
    {"_image_resize", run_resize, NULL}, {"_cvimresize", run_cv_resize, NULL}, {NULL, NULL, NULL}};
