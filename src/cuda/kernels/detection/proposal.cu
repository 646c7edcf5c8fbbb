/* Boxes of a region proposal network (op/formula/proposal.h): all boxes are ranked, and the best that no better one
 * suppresses are returned.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/detection/nms.h"
extern "C" {
#include "op/formula/proposal.h"
}

struct network {
    mx_proposal_attrs p;
    mx_cuda_numbers scores, moves, info; /* (N, 2 A, H, W), (N, 4 A, H, W), (N, 3): height, width, scale */
    int64_t batch, anchors, height, width;
    int64_t count, most; /* boxes of an image, and how many of them compete */
    mx_cuda_box *boxes;  /* (N, count): with their scores */
    mx_cuda_box *best;   /* (N, most): the best first */
    int64_t *kept;       /* (N, rows): numbers in `best` of the remaining ones */
    int64_t *left;       /* (N): how many */
    unsigned char *gone; /* (N, most) */
};

/* Overlap of boxes that include their last pixel. */
struct overlaps {
    double threshold;
    static __device__ mx_proposal_box corners(const mx_cuda_box &b)
    {
        return {b.box.left, b.box.top, b.box.right, b.box.bottom, b.tag};
    }
    __device__ bool operator()(const mx_cuda_box &a, const mx_cuda_box &b) const
    {
        return mx_proposal_overlap(corners(a), a.area, corners(b), b.area) > threshold;
    }
};

static mx_code make_boxes(const mx_kernel_call *call, const network &m, uint64_t *keys)
{
    return mx_cuda_each(call, m.batch * m.count, [=] __device__(int64_t i) {
        const int64_t a = i % m.anchors, place = i / m.anchors % (m.height * m.width), n = i / m.count,
                      map = m.height * m.width, y = place / m.width, x = place % m.width;
        const mx_proposal_rules rules = {(double)m.p.feature_stride, (double)m.p.rpn_min_size, m.p.iou_loss};
        double info[3], by[4];
        m.info.read(3 * n, 3, info);
        for (int k = 0; k < 4; k++)
            by[k] = m.moves[((n * m.anchors + a) * 4 + k) * map + place];
        const mx_proposal_box anchor = mx_proposal_anchor(&m.p.scales, &m.p.ratios, m.p.feature_stride, a);
        const double score = m.scores[(n * 2 * m.anchors + m.anchors + a) * map + place];
        const mx_proposal_box b = mx_proposal_of(&rules, anchor, y, x, by, score, info);
        m.boxes[i] = {{b.left, b.top, b.right, b.bottom}, mx_proposal_area(b), b.score};
        keys[i] = mx_cuda_score_key(b.score);
    });
}

static mx_code list_best(const mx_kernel_call *call, const network &m, mx_cuda_ranking &ranking)
{
    const mx_code code = ranking.sort(call);
    const int64_t *const order = ranking.order;
    int64_t *const count = ranking.count;
    if (code)
        return code;
    return mx_cuda_each(call, m.batch * m.most, [=] __device__(int64_t i) {
        const int64_t n = i / m.most, k = i % m.most;
        m.best[i] = m.boxes[n * m.count + order[n * m.count + k]];
        if (!k)
            count[n] = m.most;
    });
}

/* Rows (image, box) and scores; the remaining boxes are repeated until there are enough. */
static mx_code write_rows(const mx_kernel_call *call, const network &m)
{
    const int64_t rows = m.p.rpn_post_nms_top_n;
    const mx_cuda_results boxes(call->out[0]), scores(call->out[1]);
    const mx_code code = mx_cuda_rows(call, m.batch, m.most, [=] __device__(int64_t n) {
        const int64_t all = mx_cuda_block_pack(
            m.most, [&](int64_t i) { return !m.gone[n * m.most + i]; },
            [&](int64_t i, int64_t k) {
                if (k < rows)
                    m.kept[n * rows + k] = i;
            });
        if (!threadIdx.x)
            m.left[n] = all < rows ? all : rows;
    });
    if (code)
        return code;
    return mx_cuda_each(call, m.batch * rows, [=] __device__(int64_t i) {
        const int64_t n = i / rows, left = m.left[n];
        mx_cuda_box b = {};
        if (left)
            b = m.best[n * m.most + m.kept[n * rows + i % rows % left]];
        boxes.put(5 * i, left ? (double)n : 0), boxes.put(5 * i + 1, b.box.left), boxes.put(5 * i + 2, b.box.top);
        boxes.put(5 * i + 3, b.box.right), boxes.put(5 * i + 4, b.box.bottom);
        scores.put(i, b.tag);
    });
}

static mx_code run(const mx_kernel_call *call)
{
    const mx_proposal_attrs *p = (const mx_proposal_attrs *)call->attrs;
    const int64_t *s = call->in[0]->shape, batch = s[0], count = s[1] / 2 * s[2] * s[3], rows = p->rpn_post_nms_top_n,
                  most = p->rpn_pre_nms_top_n > 0 && p->rpn_pre_nms_top_n < count ? p->rpn_pre_nms_top_n : count;
    mx_cuda_device *d = mx_cuda_of(call);
    if (!mx_dtype_is_float(call->in[0]->dtype))
        return MX_DECLINED;
    if (!d || !call->out[0]->size)
        return d ? MX_OK : mx_error_code();
    mx_cuda_ranking ranking(d, batch, count);
    mx_cuda_scratch room(d, (size_t)(batch * (count + most)) * sizeof(mx_cuda_box) +
                                (size_t)(batch * (rows + 1)) * sizeof(int64_t) + (size_t)(batch * most));
    if (!ranking.keys || !room.memory)
        return mx_error_code();
    network m = {*p, mx_cuda_numbers(call->in[0]), mx_cuda_numbers(call->in[1]), mx_cuda_numbers(call->in[2]), batch,
                 s[1] / 2, s[2], s[3], count, most};
    m.boxes = room.as<mx_cuda_box>(), m.best = m.boxes + batch * count, m.kept = (int64_t *)(m.best + batch * most);
    m.left = m.kept + batch * rows, m.gone = (unsigned char *)(m.left + batch);
    mx_code code = make_boxes(call, m, ranking.keys);
    code = code ? code : list_best(call, m, ranking);
    code = code ? code : mx_cuda_suppress(call, {batch, most, m.best, ranking.count, m.gone}, overlaps{p->threshold});
    return code ? code : write_rows(call, m);
}

MX_CUDA_KERNELS(proposal) = {
    {"_contrib_MultiProposal", run, NULL}, {"_contrib_Proposal", run, NULL}, {NULL, NULL, NULL}};
