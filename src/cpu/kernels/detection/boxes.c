/* Box operators on the CPU.  Work is split by batches, or by boxes if they are independent.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/detection/box_list.h"
#include "cpu/kernels/linalg/doubles.h"
#include "gluon/op.gen.h"

/* ---- box_iou ---------------------------------------------------------------------------------------------------- */

typedef struct iou_job {
    const double *lhs;
    box_list rhs;
    int64_t n; /* boxes of rhs */
    bool center;
    double *out;
} iou_job;

static void iou_rows(void *arg, int64_t begin, int64_t end)
{
    const iou_job *job = arg;
    for (int64_t i = begin; i < end; i++) {
        const mx_box b = mx_box_of(job->lhs + 4 * i, job->center);
        box_list_overlaps(&job->rhs, b, mx_box_area(b), 0, job->n, job->out + i * job->n);
    }
}

static mx_code iou(const mx_doubles *d)
{
    const int64_t lhs = d->call->in[0]->size / 4, rhs = d->call->in[1]->size / 4;
    const bool center = ((const mx_box_iou_attrs *)d->call->attrs)->format == MX_BOX_IOU_CENTER;
    const size_t bytes = (size_t)(BOX_COLUMNS * rhs) * sizeof(double);
    double *columns = mx_alloc(bytes);
    if (!columns)
        return mx_error_code();
    iou_job job = {d->in[0], box_list_in(columns, rhs), rhs, center, d->out[0]};
    for (int64_t k = 0; k < rhs; k++)
        box_list_set(&job.rhs, k, mx_box_of(d->in[1] + 4 * k, center), 0);
    mx_parallel(lhs, 1 + MX_GRAIN / (4 * rhs + 1), iou_rows, &job);
    mx_free(columns, bytes);
    return MX_OK;
}

/* ---- box_nms: candidates by descending score; each one left marks the later ones that it suppresses ---------- */

typedef struct nms_job {
    const mx_box_nms_attrs *p;
    const double *in;
    double *out, *index;
    char *room; /* per batch: nms_room bytes */
    int64_t n, columns;
} nms_job;

static size_t nms_room(int64_t n)
{
    return (size_t)n * ((BOX_COLUMNS + 1) * sizeof(double) + sizeof(int64_t)) + ((size_t)n + 7) / 8 * 8;
}

static int64_t candidates(const nms_job *job, const double *rows, int64_t *order, double *score)
{
    const mx_box_nms_attrs *p = job->p;
    int64_t count = 0;
    for (int64_t i = 0; i < job->n && !mx_stop_wanted_at(i); i++) {
        const double *row = rows + i * job->columns;
        score[i] = row[p->score_index];
        if (score[i] > p->valid_thresh && !(p->id_index >= 0 && row[p->id_index] == (double)p->background_id))
            order[count++] = i;
    }
    mx_sort_by_score(score, order, count);
    return p->topk > 0 && p->topk < count ? p->topk : count;
}

static void put_row(const mx_box_nms_attrs *p, mx_box b, double *to)
{
    if (p->in_format != p->out_format)
        mx_box_numbers(b, p->out_format == MX_BOX_NMS_CENTER, to + p->coord_start);
}

static void nms_batches(void *arg, int64_t begin, int64_t end)
{
    const nms_job *job = arg;
    const mx_box_nms_attrs *p = job->p;
    const int64_t n = job->n, columns = job->columns;
    const bool all_classes = p->id_index < 0 || p->force_suppress;
    for (int64_t batch = begin; batch < end; batch++) {
        double *memory = (double *)(job->room + (size_t)batch * nms_room(n)), *score = memory + BOX_COLUMNS * n;
        int64_t *order = (int64_t *)(score + n), kept = 0;
        unsigned char *gone = (unsigned char *)(order + n);
        const box_list list = box_list_in(memory, n);
        const double *rows = job->in + batch * n * columns;
        double *out = job->out + batch * n * columns, *index = job->index + batch * n;
        const int64_t count = candidates(job, rows, order, score);
        for (int64_t i = 0; i < count && !mx_stop_wanted_at(i); i++) {
            const double *row = rows + order[i] * columns;
            box_list_set(&list, i, mx_box_of(row + p->coord_start, p->in_format == MX_BOX_NMS_CENTER),
                         all_classes ? 0 : row[p->id_index]);
        }
        memset(gone, 0, (size_t)n);
        for (int64_t i = 0; i < count && (i % 64 || !mx_stop_wanted()); i++) {
            if (gone[i])
                continue;
            box_list_suppress(&list, i, count, p->overlap_thresh, false, all_classes, gone);
            memcpy(out + kept * columns, rows + order[i] * columns, (size_t)columns * sizeof *out);
            put_row(p, box_list_get(&list, i), out + kept * columns);
            index[kept++] = (double)order[i];
        }
    }
}

static mx_code nms(const mx_doubles *d)
{
    const mx_array *x = d->call->in[0];
    nms_job job = {d->call->attrs, d->in[0], d->out[0], d->out[1], NULL, x->shape[x->ndim - 2], x->shape[x->ndim - 1]};
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < d->call->out[k]->size; i++)
            d->out[k][i] = -1;
    if (!x->size)
        return MX_OK;
    const int64_t batches = x->size / (job.n * job.columns);
    const size_t bytes = (size_t)batches * nms_room(job.n);
    job.room = mx_alloc(bytes);
    if (!job.room)
        return mx_error_code();
    mx_parallel(batches, 1 + MX_GRAIN / (16 * job.n), nms_batches, &job);
    mx_free(job.room, bytes);
    return MX_OK;
}

/* Scatters the rows of the gradient to where they came from. */
static mx_code nms_backward(const mx_doubles *d)
{
    const mx_array *g = d->call->in[0];
    const int64_t n = g->shape[g->ndim - 2], columns = g->shape[g->ndim - 1];
    memset(d->out[0], 0, (size_t)g->size * sizeof(double));
    for (int64_t i = 0; g->size && i < g->size / columns && !mx_stop_wanted_at(i); i++) {
        const double to = d->in[1][i];
        if (to >= 0 && to < (double)n)
            memcpy(d->out[0] + (i / n * n + (int64_t)to) * columns, d->in[0] + i * columns,
                   (size_t)columns * sizeof(double));
    }
    return MX_OK;
}

/* ---- bipartite_matching --------------------------------------------------------------------------------------- */

typedef struct matching_job {
    const mx_bipartite_matching_attrs *p;
    const double *in;
    double *row_match, *column_match;
    double *score;  /* (batches, rows * columns): large ones are good */
    int64_t *order; /* the same */
    int64_t rows, columns;
} matching_job;

static void match_batches(void *arg, int64_t begin, int64_t end)
{
    const matching_job *job = arg;
    const bool ascend = job->p->is_ascend;
    const int64_t each = job->rows * job->columns;
    for (int64_t b = begin; b < end; b++) {
        const double *in = job->in + b * each;
        double *score = job->score + b * each, *to_row = job->row_match + b * job->rows,
               *to_column = job->column_match + b * job->columns;
        int64_t *order = job->order + b * each, count = 0, made = 0;
        for (int64_t i = 0; i < each && !mx_stop_wanted_at(i); i++) {
            score[i] = ascend ? -in[i] : in[i];
            if (ascend ? in[i] < job->p->threshold : in[i] > job->p->threshold)
                order[count++] = i; /* the others need not be sorted */
        }
        mx_sort_by_score(score, order, count);
        for (int64_t i = 0; i < count && !mx_stop_wanted_at(i); i++) {
            const int64_t row = order[i] / job->columns, column = order[i] % job->columns;
            if (to_row[row] != -1 || to_column[column] != -1)
                continue;
            to_row[row] = (double)column, to_column[column] = (double)row;
            if (++made > job->p->topk && job->p->topk > 0)
                break;
        }
    }
}

static mx_code matching(const mx_doubles *d)
{
    const mx_array *x = d->call->in[0];
    matching_job job = {.p = d->call->attrs, .in = d->in[0], .row_match = d->out[0], .column_match = d->out[1], .rows = x->shape[x->ndim - 2],
                        .columns = x->shape[x->ndim - 1]};
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < d->call->out[k]->size; i++)
            d->out[k][i] = -1;
    if (!x->size)
        return MX_OK;
    const size_t bytes = (size_t)x->size * (sizeof(double) + sizeof(int64_t));
    job.score = mx_alloc(bytes);
    if (!job.score)
        return mx_error_code();
    job.order = (int64_t *)(job.score + x->size);
    const int64_t each = job.rows * job.columns;
    mx_parallel(x->size / each, 1 + MX_GRAIN / (16 * each), match_batches, &job);
    mx_free(job.score, bytes);
    return MX_OK;
}

/* ---- box_encode, box_decode ----------------------------------------------------------------------------------- */

static void encode_boxes(void *arg, int64_t begin, int64_t end)
{
    const mx_doubles *d = arg;
    const int64_t n = d->call->in[0]->shape[1], boxes = d->call->in[3]->shape[1];
    for (int64_t i = begin; i < end; i++) {
        double *to = d->out[0] + 4 * i, *mask = d->out[1] + 4 * i;
        const double which = d->in[1][i];
        const bool used = d->in[0][i] > 0.5 && which >= 0 && which < (double)boxes;
        if (used)
            mx_box_offsets(mx_box_of(d->in[2] + 4 * i, false),
                           mx_box_of(d->in[3] + 4 * (i / n * boxes + (int64_t)which), false), to);
        for (int k = 0; k < 4; k++) {
            to[k] = used ? mx_box_encoded(to[k], d->in[4][k], d->in[5][k]) : 0;
            mask[k] = used;
        }
    }
}

static mx_code encode(const mx_doubles *d)
{
    mx_parallel(d->call->in[0]->size, MX_GRAIN / 64, encode_boxes, (void *)d);
    return MX_OK;
}

static void decode_boxes(void *arg, int64_t begin, int64_t end)
{
    const mx_doubles *d = arg;
    const mx_box_decode_attrs *p = d->call->attrs;
    const int64_t anchors = d->call->in[1]->size / 4;
    const double deviations[4] = {p->std0, p->std1, p->std2, p->std3};
    for (int64_t i = begin; i < end; i++) {
        const mx_box a = mx_box_of(d->in[1] + 4 * (i % anchors), p->format == MX_BOX_DECODE_CENTER);
        *(mx_box *)(d->out[0] + 4 * i) = mx_box_decoded(a, d->in[0] + 4 * i, deviations, p->clip);
    }
}

static mx_code decode(const mx_doubles *d)
{
    if (d->call->in[1]->size)
        mx_parallel(d->call->in[0]->size / 4, MX_GRAIN / 64, decode_boxes, (void *)d);
    return MX_OK;
}

static mx_code run_iou(const mx_kernel_call *call) { return mx_run_doubles(call, 0, iou); }
static mx_code run_nms(const mx_kernel_call *call) { return mx_run_doubles(call, 0, nms); }
static mx_code run_nms_backward(const mx_kernel_call *call) { return mx_run_doubles(call, 0, nms_backward); }
static mx_code run_matching(const mx_kernel_call *call) { return mx_run_doubles(call, 0, matching); }
static mx_code run_encode(const mx_kernel_call *call) { return mx_run_doubles(call, 0, encode); }
static mx_code run_decode(const mx_kernel_call *call) { return mx_run_doubles(call, 0, decode); }

MX_CPU_KERNELS(boxes) = {{"_contrib_box_iou", run_iou, NULL},
                         {"_contrib_box_nms", run_nms, NULL},
                         {"_backward__contrib_box_nms", run_nms_backward, NULL},
                         {"_contrib_bipartite_matching", run_matching, NULL},
                         {"_contrib_box_encode", run_encode, NULL},
                         {"_contrib_box_decode", run_decode, NULL},
                         {NULL, NULL, NULL}};
