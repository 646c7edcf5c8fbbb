/* MultiBox on the CPU: images on several threads.
 *
 * Targets: all overlaps of the image's boxes with the anchors are computed once.  A box remembers its best free
 * anchor and looks again only when another box took it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/detection/box_list.h"
#include "cpu/kernels/linalg/doubles.h"
#include "gluon/op.gen.h"
#include "op/formula/multibox.h"

/* ---- MultiBoxPrior -------------------------------------------------------------------------------------------- */

/* Boxes of rows [begin, end) of the map. */
static void prior_rows(void *arg, int64_t begin, int64_t end)
{
    const mx_doubles *d = arg;
    const mx_multibox_prior_attrs *p = d->call->attrs;
    const int64_t height = d->call->in[0]->shape[2], width = d->call->in[0]->shape[3];
    const mx_prior prior = mx_prior_of(p->sizes, p->ratios, p->steps.d, p->offsets.d, p->clip, height, width);
    for (int64_t k = 0; k < prior.each; k++)
        for (int64_t place = begin * width; place < end * width; place++)
            *(mx_box *)(d->out[0] + 4 * (place * prior.each + k)) = mx_prior_box(&prior, place, k);
}

static mx_code prior(const mx_doubles *d)
{
    mx_parallel(d->call->in[0]->shape[2], 1 + MX_GRAIN / (8 * d->call->in[0]->shape[3] + 1), prior_rows, (void *)d);
    return MX_OK;
}

/* ---- MultiBoxTarget ------------------------------------------------------------------------------------------- */

typedef struct target_room { /* scratch of one image; n anchors, `rows` boxes at most */
    double *overlap;         /* (rows, n) */
    double *best;            /* (n): of each anchor */
    double *score;           /* (n) */
    int64_t *box;            /* (n): the best one, -1: none */
    int64_t *order;          /* (n) */
    int64_t *anchor;         /* (rows): the best free one, -1: none, -2: the box is matched */
    signed char *kind;       /* (n): MX_ANCHOR_... */
} target_room;

typedef struct target_job {
    const mx_doubles *d;
    box_list anchors;
    char *room;
    size_t each; /* bytes of one image's room */
    int64_t n, rows, width, classes;
} target_job;

static size_t target_bytes(int64_t n, int64_t rows)
{
    return (size_t)(rows * n + 2 * n) * sizeof(double) + (size_t)(2 * n + rows) * sizeof(int64_t) +
           ((size_t)n + 7) / 8 * 8;
}

static target_room room_of(const target_job *job, int64_t image)
{
    target_room r;
    r.overlap = (double *)(job->room + (size_t)image * job->each), r.best = r.overlap + job->rows * job->n,
    r.score = r.best + job->n;
    r.box = (int64_t *)(r.score + job->n), r.order = r.box + job->n, r.anchor = r.order + job->n,
    r.kind = (signed char *)(r.anchor + job->rows);
    return r;
}

static int64_t best_free(const target_room *r, int64_t n, int64_t box)
{
    const double *overlap = r->overlap + box * n;
    double best = MX_MATCH_LEAST;
    int64_t anchor = -1;
    for (int64_t i = 0; i < n; i++)
        if (overlap[i] > best && r->kind[i] != MX_ANCHOR_POSITIVE)
            best = overlap[i], anchor = i;
    return anchor;
}

/* Every box takes the anchor that overlaps it most, the best pair first; returns how many did. */
static int64_t match_boxes(const target_room *r, int64_t n, int64_t boxes)
{
    for (int64_t k = 0; k < boxes; k++)
        r->anchor[k] = mx_stop_wanted() ? -1 : best_free(r, n, k);
    for (int64_t matched = 0;; matched++) {
        int64_t box = -1;
        for (int64_t k = 0; k < boxes && !mx_stop_wanted(); k++) {
            if (r->anchor[k] >= 0 && r->kind[r->anchor[k]] == MX_ANCHOR_POSITIVE)
                r->anchor[k] = best_free(r, n, k);
            if (r->anchor[k] >= 0 &&
                (box < 0 || r->overlap[k * n + r->anchor[k]] > r->overlap[box * n + r->anchor[box]]))
                box = k;
        }
        if (box < 0)
            return matched;
        r->kind[r->anchor[box]] = MX_ANCHOR_POSITIVE, r->box[r->anchor[box]] = box;
        r->anchor[box] = -2;
    }
}

/* The other anchors take the box that they overlap most, if it is enough; returns how many did. */
static int64_t match_anchors(const target_room *r, int64_t n, int64_t boxes, double threshold)
{
    int64_t positive = 0;
    for (int64_t i = 0; i < n; i++) { /* to its end: the boxes are indices */
        r->best[i] = -1;
        if (r->kind[i] == MX_ANCHOR_POSITIVE)
            continue;
        for (int64_t k = 0; k < boxes; k++)
            if (r->overlap[k * n + i] > r->best[i])
                r->best[i] = r->overlap[k * n + i], r->box[i] = k;
        if (mx_anchor_matches(r->best[i], threshold))
            r->kind[i] = MX_ANCHOR_POSITIVE, positive++;
    }
    return positive;
}

/* predictions: (classes, n) */
static double background_share(const double *predictions, int64_t classes, int64_t n, int64_t anchor)
{
    double share;
    MX_BACKGROUND_SHARE(share, predictions, anchor, classes, n);
    return share;
}

/* Of the anchors that overlap little, those that look least like background are negative. */
static void mine_negatives(const target_job *job, const target_room *r, int64_t image, int64_t positive)
{
    const mx_multibox_target_attrs *p = job->d->call->attrs;
    const double *predictions = job->d->in[2] + image * job->classes * job->n;
    const int64_t wanted = mx_negatives_wanted(job->n, positive, p->negative_mining_ratio, p->minimum_negative_samples);
    int64_t count = 0;
    for (int64_t i = 0; i < job->n; i++)
        if (r->kind[i] != MX_ANCHOR_POSITIVE && r->best[i] < p->negative_mining_thresh) {
            r->score[i] = -background_share(predictions, job->classes, job->n, i);
            r->order[count++] = i;
        }
    mx_sort_by_score(r->score, r->order, count);
    for (int64_t i = 0; i < count && i < wanted; i++)
        r->kind[r->order[i]] = MX_ANCHOR_NEGATIVE;
}

static void put_targets(const target_job *job, const target_room *r, int64_t image, const double *labels)
{
    const mx_multibox_target_attrs *p = job->d->call->attrs;
    const int64_t n = job->n;
    for (int64_t i = 0; i < n; i++) {
        double *location = job->d->out[0] + 4 * (image * n + i), *mask = job->d->out[1] + 4 * (image * n + i);
        const bool positive = r->kind[i] == MX_ANCHOR_POSITIVE;
        const double *label = positive ? labels + r->box[i] * job->width : NULL;
        for (int k = 0; k < 4; k++)
            location[k] = 0, mask[k] = positive;
        if (positive)
            mx_target_offsets(box_list_get(&job->anchors, i), mx_box_of(label + 1, false), p->variances.d, location);
        job->d->out[2][image * n + i] = mx_target_class(r->kind[i], positive ? label[0] : 0, p->ignore_label);
    }
}

static void target_images(void *arg, int64_t begin, int64_t end)
{
    const target_job *job = arg;
    const mx_multibox_target_attrs *p = job->d->call->attrs;
    for (int64_t image = begin; image < end && !mx_stop_wanted(); image++) {
        const double *labels = job->d->in[1] + image * job->rows * job->width;
        const target_room r = room_of(job, image);
        int64_t boxes = 0;
        while (boxes < job->rows && labels[boxes * job->width] != -1)
            boxes++;
        memset(r.kind, MX_ANCHOR_IGNORED, (size_t)job->n);
        for (int64_t k = 0; k < boxes && !mx_stop_wanted(); k++) {
            const mx_box b = mx_box_of(labels + k * job->width + 1, false);
            box_list_overlaps(&job->anchors, b, mx_box_area(b), 0, job->n, r.overlap + k * job->n);
        }
        if (boxes) {
            int64_t positive = match_boxes(&r, job->n, boxes);
            positive += match_anchors(&r, job->n, boxes, p->overlap_threshold);
            if (p->negative_mining_ratio > 0)
                mine_negatives(job, &r, image, positive);
            else
                for (int64_t i = 0; i < job->n; i++)
                    r.kind[i] = r.kind[i] == MX_ANCHOR_POSITIVE ? MX_ANCHOR_POSITIVE : MX_ANCHOR_NEGATIVE;
        }
        put_targets(job, &r, image, labels);
    }
}

static mx_code target(const mx_doubles *d)
{
    const int64_t *label = d->call->in[1]->shape, n = d->call->in[0]->shape[1];
    target_job job = {.d = d,
                      .each = target_bytes(n, label[1]),
                      .n = n,
                      .rows = label[1],
                      .width = label[2],
                      .classes = d->call->in[2]->shape[1]};
    const size_t shared = (size_t)(BOX_COLUMNS * n) * sizeof(double), bytes = shared + (size_t)label[0] * job.each;
    double *block = mx_alloc(bytes);
    if (!block)
        return mx_error_code();
    job.anchors = box_list_in(block, n), job.room = (char *)block + shared;
    for (int64_t i = 0; i < n; i++)
        box_list_set(&job.anchors, i, mx_box_of(d->in[0] + 4 * i, false), 0);
    mx_parallel(label[0], 1 + MX_GRAIN / (8 * n * (label[1] + 1) + 1), target_images, &job);
    mx_free(block, bytes);
    return MX_OK;
}

/* ---- MultiBoxDetection ---------------------------------------------------------------------------------------- */

typedef struct detection_job {
    const mx_doubles *d;
    char *room;
    size_t each;
    int64_t n, classes;
} detection_job;

static size_t detection_bytes(int64_t n)
{
    return (size_t)n * ((6 + BOX_COLUMNS + 1) * sizeof(double) + sizeof(int64_t)) + ((size_t)n + 7) / 8 * 8;
}

/* Rows (class, score, box) of the anchors whose best class is not too weak, in order of the anchors; score: scratch
 * (n). */
static int64_t collect(const detection_job *job, int64_t image, double *rows, double *score, int64_t *class_id)
{
    const mx_multibox_detection_attrs *p = job->d->call->attrs;
    const int64_t n = job->n;
    const double *prob = job->d->in[0] + image * job->classes * n;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        score[i] = -1, class_id[i] = -1;
    for (int64_t c = 0; c < job->classes; c++)
        for (int64_t i = 0; i < n && c != p->background_id; i++)
            if (prob[c * n + i] > score[i])
                score[i] = prob[c * n + i], class_id[i] = c;
    for (int64_t i = 0; i < n; i++)
        if (mx_detection_counts(class_id[i], score[i], p->threshold)) {
            double *row = rows + 6 * count++;
            row[0] = mx_detection_class(class_id[i], p->background_id), row[1] = score[i];
            *(mx_box *)(row + 2) = mx_detection_box(mx_box_of(job->d->in[2] + 4 * i, false),
                                                    job->d->in[1] + (image * n + i) * 4, p->variances.d, p->clip);
        }
    return count;
}

static void detect_images(void *arg, int64_t begin, int64_t end)
{
    const detection_job *job = arg;
    const mx_multibox_detection_attrs *p = job->d->call->attrs;
    const int64_t n = job->n;
    for (int64_t image = begin; image < end; image++) {
        double *rows = (double *)(job->room + (size_t)image * job->each), *columns = rows + 6 * n,
               *score = columns + BOX_COLUMNS * n, *out = job->d->out[0] + image * n * 6;
        int64_t *order = (int64_t *)(score + n);
        unsigned char *gone = (unsigned char *)(order + n);
        const box_list list = box_list_in(columns, n);
        const int64_t count = collect(job, image, rows, score, order);
        for (int64_t i = 0; i < count; i++)
            order[i] = i, score[i] = rows[6 * i + 1];
        mx_sort_by_score(score, order, count);
        const int64_t kept = p->nms_topk > 0 && p->nms_topk < count ? p->nms_topk : count;
        for (int64_t i = 0; i < count; i++) { /* what does not compete keeps its place, without a class */
            memcpy(out + 6 * i, rows + 6 * (i < kept ? order[i] : i), 6 * sizeof *out);
            out[6 * i] = i < kept ? out[6 * i] : -1;
            box_list_set(&list, i, mx_box_of(out + 6 * i + 2, false), out[6 * i]);
        }
        memset(gone, 0, (size_t)n);
        for (int64_t i = 0; i < kept && p->nms_threshold > 0 && p->nms_threshold <= 1; i++)
            if (gone[i])
                out[6 * i] = -1;
            else
                box_list_suppress(&list, i, kept, p->nms_threshold, true, p->force_suppress, gone);
    }
}

static mx_code detection(const mx_doubles *d)
{
    const int64_t *prob = d->call->in[0]->shape;
    detection_job job = {d, NULL, detection_bytes(prob[2]), prob[2], prob[1]};
    for (int64_t i = 0; i < d->call->out[0]->size; i++)
        d->out[0][i] = -1;
    const size_t bytes = (size_t)prob[0] * job.each;
    job.room = mx_alloc(bytes);
    if (!job.room)
        return mx_error_code();
    mx_parallel(prob[0], 1 + MX_GRAIN / (32 * prob[2] + 1), detect_images, &job);
    mx_free(job.room, bytes);
    return MX_OK;
}

static mx_code run_prior(const mx_kernel_call *call) { return mx_run_doubles(call, 1, prior); }
static mx_code run_target(const mx_kernel_call *call) { return mx_run_doubles(call, 0, target); }
static mx_code run_detection(const mx_kernel_call *call) { return mx_run_doubles(call, 0, detection); }

MX_CPU_KERNELS(multibox) = {{"_contrib_MultiBoxPrior", run_prior, NULL},
                            {"_contrib_MultiBoxTarget", run_target, NULL},
                            {"_contrib_MultiBoxDetection", run_detection, NULL},
                            {NULL, NULL, NULL}};
