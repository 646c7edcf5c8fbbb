/* Boxes of a region proposal network on the CPU: all boxes in parallel, then non-maximum suppression per image.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/proposal.h"

#include <string.h>

#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"
#include "op/formula/boxes.h"

typedef struct proposal_job { /* of one image */
    const mx_proposal_attrs *p;
    const void *scores, *moves; /* (2 A, H, W), (4 A, H, W) */
    double info[3];
    int64_t anchors, height, width;
    mx_proposal_box *boxes; /* (H, W, A) */
    double *score;          /* of each: for sorting */
    int64_t *order;
    bool single;
} proposal_job;

static double element(const proposal_job *job, const void *from, int64_t i)
{
    return job->single ? (double)((const float *)from)[i] : ((const double *)from)[i];
}

static void make_boxes(void *arg, int64_t begin, int64_t end)
{
    const proposal_job *job = arg;
    const mx_proposal_attrs *p = job->p;
    const int64_t map = job->height * job->width;
    const mx_proposal_rules rules = {(double)p->feature_stride, (double)p->rpn_min_size, p->iou_loss};
    for (int64_t a = 0; a < job->anchors; a++) {
        const mx_proposal_box anchor = mx_proposal_anchor(&p->scales, &p->ratios, p->feature_stride, a);
        for (int64_t place = begin; place < end; place++) {
            const int64_t y = place / job->width, x = place % job->width, i = place * job->anchors + a;
            const double score = element(job, job->scores, (job->anchors + a) * map + place);
            double by[4];
            for (int k = 0; k < 4; k++)
                by[k] = element(job, job->moves, (4 * a + k) * map + place);
            job->boxes[i] = mx_proposal_of(&rules, anchor, y, x, by, score, job->info);
            job->score[i] = job->boxes[i].score;
            job->order[i] = i;
        }
    }
}

static bool goes(const mx_proposal_box *kept, int64_t n, const mx_proposal_box *b, double threshold)
{
    const double own = mx_proposal_area(*b);
    for (int64_t k = 0; k < n; k++)
        if (mx_proposal_overlap(kept[k], mx_proposal_area(kept[k]), *b, own) > threshold)
            return true;
    return false;
}

/* The remaining boxes, best first, at the beginning of `kept`; returns how many. */
static int64_t keep_best(const proposal_job *job, int64_t count, mx_proposal_box *kept)
{
    const mx_proposal_attrs *p = job->p;
    const int64_t most = p->rpn_pre_nms_top_n > 0 && p->rpn_pre_nms_top_n < count ? p->rpn_pre_nms_top_n : count;
    int64_t n = 0;
    mx_sort_by_score(job->score, job->order, count);
    for (int64_t i = 0; i < most && n < p->rpn_post_nms_top_n; i++)
        if (!goes(kept, n, &job->boxes[job->order[i]], p->threshold))
            kept[n++] = job->boxes[job->order[i]];
    return n;
}

static void write_rows(const mx_kernel_call *call, bool single, int64_t image, const mx_proposal_box *kept, int64_t n,
                       int64_t rows)
{
    for (int64_t r = 0; r < rows; r++) {
        const mx_proposal_box b = n ? kept[r % n] : (mx_proposal_box){0, 0, 0, 0, 0};
        const double row[6] = {n ? (double)image : 0, b.left, b.top, b.right, b.bottom, b.score};
        for (int k = 0; k < 6; k++) {
            void *to = mx_data(call->out[k == 5]);
            const int64_t at = k == 5 ? image * rows + r : 5 * (image * rows + r) + k;
            if (single)
                ((float *)to)[at] = (float)row[k];
            else
                ((double *)to)[at] = row[k];
        }
    }
}

static mx_code run(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const int64_t *s = call->in[0]->shape, count = s[1] / 2 * s[2] * s[3];
    const size_t item = (size_t)mx_dtype_size(compute),
                 each = 2 * sizeof(mx_proposal_box) + sizeof(double) + sizeof(int64_t);
    proposal_job job = {
        .p = call->attrs, .anchors = s[1] / 2, .height = s[2], .width = s[3], .single = compute == MX_FLOAT32};
    const size_t bytes = (size_t)count * each;
    job.boxes = mx_alloc(bytes);
    if (!job.boxes)
        return mx_error_code();
    mx_proposal_box *kept = job.boxes + count;
    job.score = (double *)(kept + count), job.order = (int64_t *)(job.score + count);
    for (int64_t n = 0; n < s[0]; n++) {
        job.scores = (const char *)mx_data(call->in[0]) + (size_t)(2 * n * count) * item;
        job.moves = (const char *)mx_data(call->in[1]) + (size_t)(4 * n * count) * item;
        for (int k = 0; k < 3; k++)
            job.info[k] = element(&job, mx_data(call->in[2]), 3 * n + k);
        mx_parallel(s[2] * s[3], 1 + MX_GRAIN / (32 * job.anchors), make_boxes, &job);
        if (mx_stop_wanted()) /* the order is incomplete */
            break;
        write_rows(call, job.single, n, kept, keep_best(&job, count, kept), job.p->rpn_post_nms_top_n);
    }
    mx_free(job.boxes, bytes);
    return MX_OK;
}

MX_CPU_KERNELS(proposal) = {
    {"_contrib_MultiProposal", run, NULL, MX_KERNEL_WIDEN}, {"_contrib_Proposal", run, NULL, MX_KERNEL_WIDEN}, {NULL, NULL, NULL}};
