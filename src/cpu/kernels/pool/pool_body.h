/* Pooling for one type: included once per T (element) with NAME(x) for the function names, LOWEST, ROOT2 and ROOT3.
 *
 * A window function processes `inner` contiguous channels: 1 in the NCHW layout, up to POOL_INNER with channels
 * last, where the loop over them vectorises.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#define EACH_ELEMENT(w, at)                                                          \
    for (int64_t z = (w)->begin[0]; z < (w)->end[0]; z++)                             \
        for (int64_t y = (w)->begin[1]; y < (w)->end[1]; y++)                         \
            for (int64_t at = z * (w)->at[0] + y * (w)->at[1] + (w)->begin[2] * (w)->at[2], \
                         last_##at = at + ((w)->end[2] - (w)->begin[2]) * (w)->at[2]; \
                 at < last_##at; at += (w)->at[2])

static void NAME(max_forward)(const pool_window *w, const T *x, T *out)
{
    for (int64_t c = 0; c < w->inner; c++)
        out[c] = w->empty ? LOWEST : (T)-INFINITY;
    EACH_ELEMENT(w, at)
        for (int64_t c = 0; c < w->inner; c++)
            out[c] = x[at + c] > out[c] ? x[at + c] : out[c];
}

/* dx[first position of the largest] += dy */
static void NAME(max_backward)(const pool_window *w, const T *x, const T *dy, T *dx)
{
    for (int64_t c = 0; c < w->inner; c++) {
        int64_t best = -1;
        T most = (T)-INFINITY;
        EACH_ELEMENT(w, at)
            if (x[at + c] > most || (best < 0 && x[at + c] == most)) {
                most = x[at + c];
                best = at + c;
            }
        if (best >= 0)
            dx[best] += dy[c];
    }
}

/* values[first position of the largest x]; 0 if there is none */
static void NAME(max_pick)(const pool_window *w, const T *x, const T *values, T *out)
{
    for (int64_t c = 0; c < w->inner; c++) {
        T most = (T)-INFINITY;
        bool found = false;
        out[c] = 0;
        EACH_ELEMENT(w, at)
            if (x[at + c] > most || (!found && x[at + c] == most)) {
                most = x[at + c];
                out[c] = values[at + c];
                found = true;
            }
    }
}

/* Sum and average: w->scale is 1 or 1 / size. */
static void NAME(sum_forward)(const pool_window *w, const T *x, T *out)
{
    for (int64_t c = 0; c < w->inner; c++)
        out[c] = 0;
    EACH_ELEMENT(w, at)
        for (int64_t c = 0; c < w->inner; c++)
            out[c] += x[at + c];
    for (int64_t c = 0; c < w->inner; c++)
        out[c] *= (T)w->scale;
}

/* dx += dy * scale over the window */
static void NAME(sum_backward)(const pool_window *w, const T *x, const T *dy, T *dx)
{
    (void)x;
    EACH_ELEMENT(w, at)
        for (int64_t c = 0; c < w->inner; c++)
            dx[at + c] += dy[c] * (T)w->scale;
}

static inline T NAME(power)(T v, int p) { return p == 1 ? v : p == 2 ? v * v : v * v * v; }
static inline T NAME(root)(T v, int p) { return p == 1 ? v : p == 2 ? ROOT2(v) : ROOT3(v); }

static void NAME(lp_forward)(const pool_window *w, const T *x, T *out)
{
    for (int64_t c = 0; c < w->inner; c++)
        out[c] = 0;
    EACH_ELEMENT(w, at)
        for (int64_t c = 0; c < w->inner; c++)
            out[c] += NAME(power)(x[at + c], w->p);
    for (int64_t c = 0; c < w->inner; c++)
        out[c] = NAME(root)(out[c], w->p);
}

/* dx += dy * (x / y)^(p - 1), and 0 where y is 0 */
static void NAME(lp_backward)(const pool_window *w, const T *x, const T *dy, T *dx)
{
    T y_all[POOL_INNER];
    NAME(lp_forward)(w, x, y_all);
    EACH_ELEMENT(w, at)
        for (int64_t c = 0; c < w->inner; c++) {
            const T ratio = y_all[c] != 0 ? x[at + c] / y_all[c] : 0;
            dx[at + c] += w->p == 1 ? dy[c] : w->p == 2 ? dy[c] * ratio : dy[c] * ratio * ratio;
        }
}

#undef EACH_ELEMENT

typedef struct NAME(run) {
    pool_plan plan;
    const T *x, *dy; /* dy: NULL in forward */
    const T *values; /* those at the largest x are picked; else NULL */
    T *result;       /* y or dx */
} NAME(run);

static const struct {
    void (*forward)(const pool_window *w, const T *x, T *out);
    void (*backward)(const pool_window *w, const T *x, const T *dy, T *dx);
} NAME(table)[] = {
    [MX_POOL_MAX] = {NAME(max_forward), NAME(max_backward)},
    [MX_POOL_AVG] = {NAME(sum_forward), NAME(sum_backward)},
    [MX_POOL_SUM] = {NAME(sum_forward), NAME(sum_backward)},
    [MX_POOL_LP] = {NAME(lp_forward), NAME(lp_backward)},
};

/* One image and block of channels: every output position in order. */
static void NAME(run_task)(const NAME(run) *r, int64_t task)
{
    const pool_plan *p = &r->plan;
    const int64_t block = task % p->blocks, image = task / p->blocks;
    const T *x = r->x + image * p->in_image + block * p->in_block;
    const int64_t out = image * p->out_image + block * p->out_block;
    pool_window w = {.inner = pool_inner(p, block), .p = p->shape.p, .at = {p->at[0], p->at[1], p->at[2]}};
    T *dx = r->dy ? r->result + image * p->in_image + block * p->in_block : NULL;
    const int64_t window = w.inner * p->shape.kernel[0] * p->shape.kernel[1] * p->shape.kernel[2];
    int64_t left = WORK_AT_ONCE;
    for (int64_t i = 0; i < p->positions; i++, left -= window) {
        if (left <= 0) {
            if (mx_stop_wanted())
                return;
            left = WORK_AT_ONCE;
        }
        pool_window_set(p, i, &w);
        if (r->values)
            NAME(max_pick)(&w, x, r->values + (x - r->x), r->result + out + i * p->out_at);
        else if (r->dy)
            NAME(table)[p->shape.type].backward(&w, x, r->dy + out + i * p->out_at, dx);
        else
            NAME(table)[p->shape.type].forward(&w, x, r->result + out + i * p->out_at);
    }
}

static void NAME(run_range)(void *arg, int64_t begin, int64_t end)
{
    const NAME(run) *r = arg;
    for (int64_t task = begin; task < end; task++)
        NAME(run_task)(r, task);
}
