/* Rules over boxes (op/formula/boxes.h), in doubles whatever the arrays hold.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/detection/nms.h"

static __device__ mx_box box_at(const mx_cuda_numbers &x, int64_t at, bool center)
{
    double v[4];
    x.read(at, 4, v);
    return mx_box_of(v, center);
}

static __device__ void put_box(const mx_cuda_results &to, int64_t at, mx_box b, bool center)
{
    double v[4];
    mx_box_numbers(b, center, v);
    for (int k = 0; k < 4; k++)
        to.put(at + k, v[k]);
}

static mx_code fill(const mx_kernel_call *call, mx_array *x, double value)
{
    const mx_cuda_results to(x);
    return mx_cuda_each(call, x->size, [=] __device__(int64_t i) { to.put(i, value); });
}

static bool is_real(const mx_kernel_call *call) { return mx_dtype_is_float(call->in[0]->dtype); }

/* ---- box_iou -------------------------------------------------------------------------------------------------- */

static mx_code run_iou(const mx_kernel_call *call)
{
    const bool center = ((const mx_box_iou_attrs *)call->attrs)->format == MX_BOX_IOU_CENTER;
    const int64_t others = call->in[1]->size / 4;
    if (!is_real(call))
        return MX_DECLINED;
    const mx_cuda_numbers lhs(call->in[0]), rhs(call->in[1]);
    const mx_cuda_results out(call->out[0]);
    return mx_cuda_each(call, call->in[0]->size / 4 * others, [=] __device__(int64_t i) {
        const mx_box a = box_at(lhs, 4 * (i / others), center), b = box_at(rhs, 4 * (i % others), center);
        out.put(i, mx_box_overlap_of(a, mx_box_area(a), b, mx_box_area(b)));
    });
}

/* ---- box_nms: candidates by descending score; survivors are moved to the first rows ------------------------------ */

namespace /* the name is also used elsewhere */
{
struct rows {
    mx_box_nms_attrs p;
    mx_cuda_numbers in; /* (batches, n, columns) */
    mx_cuda_results out, index;
    int64_t batches, n, columns, most; /* most: candidates that compete */
    bool all_classes;
    __device__ int64_t start(int64_t b, int64_t i) const { return (b * n + i) * columns; }
};
} // namespace

static mx_code rank_rows(const mx_kernel_call *call, const rows &r, mx_cuda_ranking &ranking)
{
    uint64_t *const keys = ranking.keys;
    int64_t *const count = ranking.count;
    mx_code code = mx_cuda_each(call, r.batches * r.n, [=] __device__(int64_t i) {
        const double score = r.in[i * r.columns + r.p.score_index];
        const bool background = r.p.id_index >= 0 && r.in[i * r.columns + r.p.id_index] == (double)r.p.background_id;
        keys[i] = score > r.p.valid_thresh && !background ? mx_cuda_score_key(score) : MX_CUDA_NO_CANDIDATE;
    });
    code = code ? code : ranking.sort(call);
    if (code)
        return code;
    return mx_cuda_each(call, r.batches,
                        [=] __device__(int64_t b) { count[b] = count[b] < r.most ? count[b] : r.most; });
}

/* The competing boxes, (batches, most), best first. */
static mx_code list_boxes(const mx_kernel_call *call, const rows &r, const mx_cuda_ranking &ranking, mx_cuda_box *boxes)
{
    const int64_t *const order = ranking.order, *const count = ranking.count;
    return mx_cuda_each(call, r.batches * r.most, [=] __device__(int64_t i) {
        const int64_t b = i / r.most, k = i % r.most;
        if (k >= count[b])
            return;
        const int64_t row = r.start(b, order[b * r.n + k]);
        boxes[i] = mx_cuda_box_of(box_at(r.in, row + r.p.coord_start, r.p.in_format == MX_BOX_NMS_CENTER),
                                  r.all_classes ? 0 : r.in[row + r.p.id_index]);
    });
}

static __device__ void put_row(const rows &r, int64_t from, int64_t to, mx_box b)
{
    for (int64_t c = 0; c < r.columns; c++)
        r.out.put(to + c, r.in[from + c]);
    if (r.p.in_format != r.p.out_format)
        put_box(r.out, to + r.p.coord_start, b, r.p.out_format == MX_BOX_NMS_CENTER);
}

static mx_code pack_rows(const mx_kernel_call *call, const rows &r, const mx_cuda_ranking &ranking,
                         const mx_cuda_box *boxes, const unsigned char *gone)
{
    const int64_t *const order = ranking.order, *const count = ranking.count;
    return mx_cuda_rows(call, r.batches, r.most, [=] __device__(int64_t b) {
        mx_cuda_block_pack(
            count[b], [&](int64_t i) { return !gone[b * r.most + i]; },
            [&](int64_t i, int64_t k) {
                const int64_t row = order[b * r.n + i];
                put_row(r, r.start(b, row), r.start(b, k), boxes[b * r.most + i].box);
                r.index.put(b * r.n + k, (double)row);
            });
    });
}

static mx_code run_nms(const mx_kernel_call *call)
{
    const mx_box_nms_attrs *p = (const mx_box_nms_attrs *)call->attrs;
    const mx_array *x = call->in[0];
    mx_cuda_device *d = mx_cuda_of(call);
    if (!is_real(call))
        return MX_DECLINED;
    mx_code code = d ? fill(call, call->out[0], -1) : mx_error_code();
    code = code ? code : fill(call, call->out[1], -1);
    if (code || !x->size)
        return code;
    const int64_t n = x->shape[x->ndim - 2], columns = x->shape[x->ndim - 1], batches = x->size / (n * columns),
                  most = p->topk > 0 && p->topk < n ? p->topk : n;
    const rows r = {*p, mx_cuda_numbers(x), mx_cuda_results(call->out[0]), mx_cuda_results(call->out[1]), batches, n,
                    columns, most, p->id_index < 0 || p->force_suppress};
    mx_cuda_ranking ranking(d, batches, n);
    mx_cuda_scratch room(d, (size_t)(batches * most) * (sizeof(mx_cuda_box) + 1));
    if (!ranking.keys || !room.memory)
        return mx_error_code();
    mx_cuda_box *boxes = room.as<mx_cuda_box>();
    unsigned char *gone = (unsigned char *)(boxes + batches * most);
    code = rank_rows(call, r, ranking);
    code = code ? code : list_boxes(call, r, ranking, boxes);
    code = code ? code
                : mx_cuda_suppress(call, {batches, most, boxes, ranking.count, gone},
                                   mx_cuda_overlaps{p->overlap_thresh, false, r.all_classes});
    return code ? code : pack_rows(call, r, ranking, boxes, gone);
}

/* Rows of the gradient are written to where their boxes came from. */
static mx_code run_nms_backward(const mx_kernel_call *call)
{
    const mx_array *g = call->in[0];
    const int64_t n = g->shape[g->ndim - 2], columns = g->shape[g->ndim - 1];
    if (!is_real(call))
        return MX_DECLINED;
    const mx_cuda_numbers from(g), index(call->in[1]);
    const mx_cuda_results to(call->out[0]);
    const mx_code code = mx_cuda_zero(call, call->out[0]);
    if (code)
        return code;
    return mx_cuda_each(call, g->size, [=] __device__(int64_t i) {
        const int64_t row = i / columns;
        const double place = index[row];
        if (place >= 0 && place < (double)n)
            to.put((row / n * n + (int64_t)place) * columns + i % columns, from[i]);
    });
}

/* ---- bipartite_matching: the best pair whose row and column are free, until there is none -------------------- */

namespace /* the name is also used elsewhere */
{
struct pairs {
    const int64_t *order, *count; /* (batches, rows * columns), (batches) */
    mx_cuda_results to_row, to_column;
    int64_t rows, columns, topk;
    unsigned char *row_taken, *column_taken; /* (batches, rows), (batches, columns) */
};
} // namespace

/* The block looks at blockDim.x pairs at a time; pairs before the one that is taken need not be examined again. */
static __device__ void match_batch(const pairs &m, int64_t b)
{
    const int64_t *order = m.order + b * m.rows * m.columns;
    unsigned char *row_taken = m.row_taken + b * m.rows, *column_taken = m.column_taken + b * m.columns;
    int64_t made = 0;
    for (int64_t first = 0; first < m.count[b];) {
        const int64_t i = first + threadIdx.x;
        const bool free = i < m.count[b] && !row_taken[order[i] / m.columns] && !column_taken[order[i] % m.columns];
        const int64_t found = -mx_cuda_block_max(free ? -i : INT64_MIN + 1);
        if (found == INT64_MAX) {
            first += blockDim.x;
            continue;
        }
        first = found + 1;
        if (!threadIdx.x) {
            const int64_t row = order[found] / m.columns, column = order[found] % m.columns;
            row_taken[row] = column_taken[column] = 1;
            m.to_row.put(b * m.rows + row, (double)column), m.to_column.put(b * m.columns + column, (double)row);
        }
        __syncthreads();
        if (++made > m.topk && m.topk > 0)
            return;
    }
}

static mx_code run_matching(const mx_kernel_call *call)
{
    const mx_bipartite_matching_attrs p = *(const mx_bipartite_matching_attrs *)call->attrs;
    const mx_array *x = call->in[0];
    mx_cuda_device *d = mx_cuda_of(call);
    if (!is_real(call))
        return MX_DECLINED;
    mx_code code = d ? fill(call, call->out[0], -1) : mx_error_code();
    code = code ? code : fill(call, call->out[1], -1);
    if (code || !x->size)
        return code;
    const int64_t rows = x->shape[x->ndim - 2], columns = x->shape[x->ndim - 1], batches = x->size / (rows * columns);
    const size_t flags = (size_t)(batches * (rows + columns));
    mx_cuda_ranking ranking(d, batches, rows * columns);
    mx_cuda_scratch taken(d, flags);
    if (!ranking.keys || !taken.memory ||
        mx_cuda_fail(cudaMemsetAsync(taken.memory, 0, flags, d->stream), call->op->name))
        return mx_error_code();
    const mx_cuda_numbers in(x);
    uint64_t *const keys = ranking.keys;
    code = mx_cuda_each(call, x->size, [=] __device__(int64_t i) {
        const bool good = p.is_ascend ? in[i] < p.threshold : in[i] > p.threshold;
        keys[i] = good ? mx_cuda_score_key(p.is_ascend ? -in[i] : in[i]) : MX_CUDA_NO_CANDIDATE;
    });
    code = code ? code : ranking.sort(call);
    const pairs m = {ranking.order, ranking.count, mx_cuda_results(call->out[0]), mx_cuda_results(call->out[1]), rows,
                     columns, p.topk, taken.as<unsigned char>(), taken.as<unsigned char>() + batches * rows};
    if (code)
        return code;
    return mx_cuda_rows(call, batches, rows * columns, [=] __device__(int64_t b) { match_batch(m, b); });
}

/* ---- box_encode, box_decode ----------------------------------------------------------------------------------- */

/* inputs: samples (B, n), matches (B, n), anchors (B, n, 4), boxes (B, m, 4), means (4), deviations (4) */
static mx_code run_encode(const mx_kernel_call *call)
{
    const int64_t n = call->in[0]->shape[1], boxes = call->in[3]->shape[1];
    if (!is_real(call))
        return MX_DECLINED;
    const mx_cuda_numbers samples(call->in[0]), matches(call->in[1]), anchors(call->in[2]), references(call->in[3]),
        means(call->in[4]), deviations(call->in[5]);
    const mx_cuda_results targets(call->out[0]), masks(call->out[1]);
    return mx_cuda_each(call, call->in[0]->size, [=] __device__(int64_t i) {
        const double which = matches[i];
        const bool used = samples[i] > 0.5 && which >= 0 && which < (double)boxes;
        double to[4] = {};
        if (used)
            mx_box_offsets(box_at(anchors, 4 * i, false),
                           box_at(references, 4 * (i / n * boxes + (int64_t)which), false), to);
        for (int k = 0; k < 4; k++) {
            targets.put(4 * i + k, used ? mx_box_encoded(to[k], means[k], deviations[k]) : 0);
            masks.put(4 * i + k, used);
        }
    });
}

static mx_code run_decode(const mx_kernel_call *call)
{
    const mx_box_decode_attrs p = *(const mx_box_decode_attrs *)call->attrs;
    const int64_t anchors = call->in[1]->size / 4;
    if (!is_real(call))
        return MX_DECLINED;
    const mx_cuda_numbers offsets(call->in[0]), from(call->in[1]);
    const mx_cuda_results to(call->out[0]);
    return mx_cuda_each(call, anchors ? call->in[0]->size / 4 : 0, [=] __device__(int64_t i) {
        const double deviations[4] = {p.std0, p.std1, p.std2, p.std3};
        const mx_box anchor = box_at(from, 4 * (i % anchors), p.format == MX_BOX_DECODE_CENTER);
        double x[4];
        offsets.read(4 * i, 4, x);
        put_box(to, 4 * i, mx_box_decoded(anchor, x, deviations, p.clip), false);
    });
}

MX_CUDA_KERNELS(boxes) = {{"_contrib_box_iou", run_iou, NULL},
                          {"_contrib_box_nms", run_nms, NULL},
                          {"_backward__contrib_box_nms", run_nms_backward, NULL},
                          {"_contrib_bipartite_matching", run_matching, NULL},
                          {"_contrib_box_encode", run_encode, NULL},
                          {"_contrib_box_decode", run_decode, NULL},
                          {NULL, NULL, NULL}};
