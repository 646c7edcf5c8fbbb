/* MultiBox: boxes of a single shot detector (op/formula/multibox.h), in doubles whatever the arrays hold.
 *
 * Targets: one block per image matches its boxes, the best pair first; then all anchors at once take the box that they
 * overlap most.  Overlaps are computed where they are needed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/detection/nms.h"
extern "C" {
#include "op/formula/multibox.h"
}

static bool is_real(const mx_kernel_call *call) { return mx_dtype_is_float(call->in[0]->dtype); }

static __device__ mx_box corners(const mx_cuda_numbers &x, int64_t at)
{
    double v[4];
    x.read(at, 4, v);
    return mx_box_of(v, false);
}

/* ---- MultiBoxPrior -------------------------------------------------------------------------------------------- */

static mx_code run_prior(const mx_kernel_call *call)
{
    const mx_multibox_prior_attrs *p = (const mx_multibox_prior_attrs *)call->attrs;
    const int64_t height = call->in[0]->shape[2], width = call->in[0]->shape[3];
    const mx_prior prior = mx_prior_of(p->sizes, p->ratios, p->steps.d, p->offsets.d, p->clip, height, width);
    if (!is_real(call))
        return MX_DECLINED;
    const mx_cuda_results out(call->out[0]);
    return mx_cuda_each(call, height * width * prior.each, [=] __device__(int64_t i) {
        const mx_box b = mx_prior_box(&prior, i / prior.each, i % prior.each);
        out.put(4 * i, b.left), out.put(4 * i + 1, b.top), out.put(4 * i + 2, b.right), out.put(4 * i + 3, b.bottom);
    });
}

/* ---- MultiBoxTarget ------------------------------------------------------------------------------------------- */

struct targets {
    mx_multibox_target_attrs p;
    mx_cuda_numbers anchors, labels, predictions; /* (n, 4), (B, rows, width): class and corners, (B, classes, n) */
    mx_cuda_results location, mask, kind_out;     /* (B, n, 4), (B, n, 4), (B, n) */
    int64_t batch, n, rows, width, classes;
    int64_t *boxes, *positive; /* (B): labels that are there; anchors that got one */
    int64_t *anchor;           /* (B, rows): the best free one, -1: none, -2: the box is matched */
    double *value;             /* (B, rows): its overlap */
    int64_t *match;            /* (B, n): the box of an anchor */
    signed char *kind;         /* (B, n): MX_ANCHOR_... */
    uint64_t *keys;            /* (B, n): how little an anchor that could be negative looks like background */

    __device__ int64_t label(int64_t image, int64_t box) const { return (image * rows + box) * width; }
    __device__ double overlap(mx_box a, double area, int64_t i) const
    {
        const mx_box b = corners(anchors, 4 * i);
        return mx_box_overlap_of(a, area, b, mx_box_area(b));
    }
};

#define NOTHING INT64_MAX

/* The least number that a thread of the block has with the best value; NOTHING: none has one. */
static __device__ int64_t least_of_best(double value, int64_t number)
{
    const double best = mx_cuda_block_max(value);
    return -mx_cuda_block_max(value == best && number != NOTHING ? -number : INT64_MIN + 1);
}

/* The free anchor that overlaps a box most, by the whole block; -1: there is none. */
static __device__ int64_t best_free(const targets &m, int64_t image, int64_t box, double *value)
{
    const mx_box b = corners(m.labels, m.label(image, box) + 1);
    const double area = mx_box_area(b);
    double best = MX_MATCH_LEAST;
    int64_t mine = NOTHING;
    for (int64_t i = threadIdx.x; i < m.n; i += blockDim.x) {
        const double overlap = m.overlap(b, area, i);
        if (overlap > best && m.kind[image * m.n + i] != MX_ANCHOR_POSITIVE)
            best = overlap, mine = i;
    }
    const int64_t found = least_of_best(best, mine);
    *value = found == NOTHING ? 0 : m.overlap(b, area, found);
    return found == NOTHING ? -1 : found;
}

static __device__ void match_image(const targets &m, int64_t image)
{
    int64_t *anchor = m.anchor + image * m.rows, matched = 0;
    double *value = m.value + image * m.rows;
    const int64_t boxes = m.boxes[image];
    for (;; matched++) {
        double best = -1;
        int64_t mine = NOTHING;
        for (int64_t k = threadIdx.x; k < boxes; k += blockDim.x)
            if (anchor[k] >= 0 && value[k] > best)
                best = value[k], mine = k;
        const int64_t box = least_of_best(best, mine);
        if (box == NOTHING)
            break;
        const int64_t taken = anchor[box];
        __syncthreads();
        if (!threadIdx.x)
            m.kind[image * m.n + taken] = MX_ANCHOR_POSITIVE, m.match[image * m.n + taken] = box, anchor[box] = -2;
        __syncthreads();
        for (int64_t k = 0; k < boxes; k++) { /* who wanted this anchor, too, looks again */
            if (anchor[k] != taken)
                continue;
            double other;
            const int64_t next = best_free(m, image, k, &other);
            if (!threadIdx.x)
                anchor[k] = next, value[k] = other;
            __syncthreads();
        }
    }
    if (!threadIdx.x)
        m.positive[image] = matched;
}

static mx_code match_boxes(const mx_kernel_call *call, const targets &m)
{
    mx_code code = mx_cuda_each(call, m.batch, [=] __device__(int64_t image) {
        int64_t boxes = 0;
        while (boxes < m.rows && m.labels[m.label(image, boxes)] != -1)
            boxes++;
        m.boxes[image] = boxes;
    });
    code = code ? code : mx_cuda_rows(call, m.batch * m.rows, m.n, [=] __device__(int64_t row) {
        if (row % m.rows >= m.boxes[row / m.rows])
            return;
        double value;
        const int64_t found = best_free(m, row / m.rows, row % m.rows, &value);
        if (!threadIdx.x)
            m.anchor[row] = found, m.value[row] = value;
    });
    if (code)
        return code;
    return mx_cuda_rows(call, m.batch, m.n, [=] __device__(int64_t image) { match_image(m, image); });
}

static __device__ double background_share(const targets &m, int64_t image, int64_t i)
{
    const int64_t at = image * m.classes * m.n + i;
    double share;
    MX_BACKGROUND_SHARE(share, m.predictions, at, m.classes, m.n);
    return share;
}

/* The other anchors take the box that they overlap most, if it is enough. */
static mx_code match_anchors(const mx_kernel_call *call, const targets &m)
{
    return mx_cuda_each(call, m.batch * m.n, [=] __device__(int64_t e) {
        const int64_t image = e / m.n, i = e % m.n, boxes = m.boxes[image];
        const bool mining = m.p.negative_mining_ratio > 0;
        if (mining)
            m.keys[e] = MX_CUDA_NO_CANDIDATE;
        if (!boxes || m.kind[e] == MX_ANCHOR_POSITIVE)
            return;
        const mx_box own = corners(m.anchors, 4 * i);
        const double area = mx_box_area(own);
        double best = -1;
        for (int64_t k = 0; k < boxes; k++) {
            const mx_box b = corners(m.labels, m.label(image, k) + 1);
            const double overlap = mx_box_overlap_of(b, mx_box_area(b), own, area);
            if (overlap > best)
                best = overlap, m.match[e] = k;
        }
        if (mx_anchor_matches(best, m.p.overlap_threshold)) {
            m.kind[e] = MX_ANCHOR_POSITIVE;
            atomicAdd((unsigned long long *)&m.positive[image], 1ull);
        } else if (!mining)
            m.kind[e] = MX_ANCHOR_NEGATIVE;
        else if (best < m.p.negative_mining_thresh)
            m.keys[e] = mx_cuda_score_key(-background_share(m, image, i));
    });
}

/* Of the anchors that overlap little, those that look least like background are negative. */
static mx_code mine_negatives(const mx_kernel_call *call, const targets &m, mx_cuda_ranking &ranking)
{
    const mx_code code = ranking.sort(call);
    const int64_t *const order = ranking.order, *const count = ranking.count;
    if (code)
        return code;
    return mx_cuda_each(call, m.batch * m.n, [=] __device__(int64_t e) {
        const int64_t image = e / m.n, k = e % m.n,
                      wanted = mx_negatives_wanted(m.n, m.positive[image], m.p.negative_mining_ratio,
                                                   m.p.minimum_negative_samples);
        if (k < count[image] && k < wanted)
            m.kind[image * m.n + order[e]] = MX_ANCHOR_NEGATIVE;
    });
}

static mx_code put_targets(const mx_kernel_call *call, const targets &m)
{
    return mx_cuda_each(call, m.batch * m.n, [=] __device__(int64_t e) {
        const bool positive = m.kind[e] == MX_ANCHOR_POSITIVE;
        const int64_t label = positive ? m.label(e / m.n, m.match[e]) : 0;
        double offsets[4] = {};
        if (positive)
            mx_target_offsets(corners(m.anchors, 4 * (e % m.n)), corners(m.labels, label + 1), m.p.variances.d,
                              offsets);
        for (int k = 0; k < 4; k++)
            m.location.put(4 * e + k, offsets[k]), m.mask.put(4 * e + k, positive);
        m.kind_out.put(e, mx_target_class(m.kind[e], positive ? m.labels[label] : 0, m.p.ignore_label));
    });
}

static mx_code run_target(const mx_kernel_call *call)
{
    const mx_multibox_target_attrs *p = (const mx_multibox_target_attrs *)call->attrs;
    const int64_t *label = call->in[1]->shape, n = call->in[0]->shape[1], batch = label[0], rows = label[1];
    const bool mining = p->negative_mining_ratio > 0;
    mx_cuda_device *d = mx_cuda_of(call);
    if (!is_real(call))
        return MX_DECLINED;
    if (!d || !call->out[2]->size)
        return d ? MX_OK : mx_error_code();
    mx_cuda_scratch integers(d, (size_t)(2 * batch + 2 * batch * rows + batch * n) * sizeof(int64_t)),
        kinds(d, (size_t)(batch * n));
    mx_cuda_ranking ranking(d, mining ? batch : 0, n);
    if (!integers.memory || !kinds.memory || (mining && !ranking.keys) ||
        mx_cuda_fail(cudaMemsetAsync(kinds.memory, MX_ANCHOR_IGNORED, kinds.bytes, d->stream), call->op->name))
        return mx_error_code();
    targets m = {*p, mx_cuda_numbers(call->in[0]), mx_cuda_numbers(call->in[1]), mx_cuda_numbers(call->in[2]),
                 mx_cuda_results(call->out[0]), mx_cuda_results(call->out[1]), mx_cuda_results(call->out[2]), batch,
                 n, rows, label[2], call->in[2]->shape[1]};
    m.boxes = integers.as<int64_t>(), m.positive = m.boxes + batch, m.anchor = m.positive + batch;
    m.value = (double *)(m.anchor + batch * rows), m.match = (int64_t *)(m.value + batch * rows);
    m.kind = kinds.as<signed char>(), m.keys = ranking.keys;
    mx_code code = match_boxes(call, m);
    code = code ? code : match_anchors(call, m);
    code = code || !mining ? code : mine_negatives(call, m, ranking);
    return code ? code : put_targets(call, m);
}

/* ---- MultiBoxDetection ---------------------------------------------------------------------------------------- */

struct detections {
    mx_multibox_detection_attrs p;
    mx_cuda_numbers probabilities, offsets, anchors; /* (B, classes, n), (B, n, 4), (n, 4) */
    mx_cuda_results out;                             /* (B, n, 6) */
    int64_t batch, n, classes, most;                 /* most: boxes that compete */
    double *rows;                                    /* (B, n, 6): class (-1: too weak), score, box */
    mx_cuda_box *boxes;                              /* (B, most): the best first */
    int64_t *plain, *kept; /* (B, n): anchors that are not too weak, in their order; (B) of boxes */
    unsigned char *gone;   /* (B, most) */
};

/* The best class of an anchor, and its box. */
static mx_code collect(const mx_kernel_call *call, const detections &m, uint64_t *keys)
{
    return mx_cuda_each(call, m.batch * m.n, [=] __device__(int64_t e) {
        const int64_t image = e / m.n, i = e % m.n;
        double score = -1, offset[4], *row = m.rows + 6 * e;
        int64_t best = -1;
        for (int64_t c = 0; c < m.classes; c++) {
            const double p = m.probabilities[(image * m.classes + c) * m.n + i];
            if (c != m.p.background_id && p > score)
                score = p, best = c;
        }
        const bool strong = mx_detection_counts(best, score, m.p.threshold);
        m.offsets.read(4 * e, 4, offset);
        row[0] = strong ? mx_detection_class(best, m.p.background_id) : -1, row[1] = score;
        *(mx_box *)(row + 2) = mx_detection_box(corners(m.anchors, 4 * i), offset, m.p.variances.d, m.p.clip);
        keys[e] = strong ? mx_cuda_score_key(score) : MX_CUDA_NO_CANDIDATE;
    });
}

static mx_code list_boxes(const mx_kernel_call *call, const detections &m, const mx_cuda_ranking &ranking)
{
    const int64_t *const order = ranking.order, *const count = ranking.count;
    const mx_code code = mx_cuda_rows(call, m.batch, m.n, [=] __device__(int64_t b) {
        mx_cuda_block_pack(
            m.n, [&](int64_t i) { return m.rows[6 * (b * m.n + i)] >= 0; },
            [&](int64_t i, int64_t k) { m.plain[b * m.n + k] = i; });
        if (!threadIdx.x)
            m.kept[b] = count[b] < m.most ? count[b] : m.most;
    });
    if (code)
        return code;
    return mx_cuda_each(call, m.batch * m.most, [=] __device__(int64_t i) {
        const int64_t b = i / m.most, k = i % m.most;
        if (k >= m.kept[b])
            return;
        const double *row = m.rows + 6 * (b * m.n + order[b * m.n + k]);
        m.boxes[i] = mx_cuda_box_of(mx_box_of(row + 2, false), row[0]);
    });
}

/* The best first; what does not compete keeps its place, without a class. */
static mx_code put_detections(const mx_kernel_call *call, const detections &m, const mx_cuda_ranking &ranking)
{
    const int64_t *const order = ranking.order, *const count = ranking.count;
    return mx_cuda_each(call, m.batch * m.n, [=] __device__(int64_t e) {
        const int64_t b = e / m.n, i = e % m.n;
        const bool competes = i < m.kept[b], there = i < count[b];
        const double *row = m.rows + 6 * (b * m.n + (competes ? order[e] : there ? m.plain[e] : 0));
        for (int k = 0; k < 6; k++)
            m.out.put(6 * e + k, !there || (k == 0 && (!competes || m.gone[b * m.most + i])) ? -1 : row[k]);
    });
}

static mx_code run_detection(const mx_kernel_call *call)
{
    const mx_multibox_detection_attrs *p = (const mx_multibox_detection_attrs *)call->attrs;
    const int64_t *s = call->in[0]->shape, batch = s[0], n = s[2], all = batch * n,
                  most = p->nms_topk > 0 && p->nms_topk < n ? p->nms_topk : n;
    mx_cuda_device *d = mx_cuda_of(call);
    if (!is_real(call))
        return MX_DECLINED;
    if (!d || !call->out[0]->size)
        return d ? MX_OK : mx_error_code();
    mx_cuda_ranking ranking(d, batch, n);
    mx_cuda_scratch room(d, (size_t)all * 7 * sizeof(double) + (size_t)batch * sizeof(int64_t) +
                                (size_t)(batch * most) * (sizeof(mx_cuda_box) + 1));
    if (!ranking.keys || !room.memory)
        return mx_error_code();
    detections m = {*p, mx_cuda_numbers(call->in[0]), mx_cuda_numbers(call->in[1]), mx_cuda_numbers(call->in[2]),
                    mx_cuda_results(call->out[0]), batch, n, s[1], most};
    m.rows = room.as<double>(), m.boxes = (mx_cuda_box *)(m.rows + 6 * all),
    m.plain = (int64_t *)(m.boxes + batch * most);
    m.kept = m.plain + all, m.gone = (unsigned char *)(m.kept + batch);
    mx_code code = collect(call, m, ranking.keys);
    code = code ? code : ranking.sort(call);
    code = code ? code : list_boxes(call, m, ranking);
    if (!code && p->nms_threshold > 0 && p->nms_threshold <= 1)
        code = mx_cuda_suppress(call, {batch, most, m.boxes, m.kept, m.gone},
                                mx_cuda_overlaps{p->nms_threshold, true, p->force_suppress});
    else if (!code)
        code = mx_cuda_fail(cudaMemsetAsync(m.gone, 0, (size_t)(batch * most), d->stream), call->op->name);
    return code ? code : put_detections(call, m, ranking);
}

MX_CUDA_KERNELS(multibox) = {{"_contrib_MultiBoxPrior", run_prior, NULL},
                             {"_contrib_MultiBoxTarget", run_target, NULL},
                             {"_contrib_MultiBoxDetection", run_detection, NULL},
                             {NULL, NULL, NULL}};
