/* Attention in double precision, one number at a time: what the tests compare kernels with.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "op/def/gemm/attention_fused.h"

/* One query: batch entry n, head h, query i. */
typedef struct row {
    const mx_attention_shape *s;
    const mx_attention_values *v;
    int64_t n, h, i;
} row;

static double at(const double *const *input, const mx_attention_place *p, int64_t n, int64_t t, int64_t h, int64_t d)
{
    return input[p->input][p->first + n * p->batch + t * p->time + h * p->head + d];
}

static int64_t kv_head(const row *r) { return r->h / (r->s->heads / r->s->kv_heads); }

static bool sees(const row *r, int64_t j)
{
    const mx_attention_shape *s = r->s;
    const int64_t length = r->v->valid_length ? (int64_t)r->v->valid_length[r->n] : s->keys;
    return j < mx_attention_seen(s, length, r->i) &&
           (!r->v->mask || r->v->mask[r->n * s->mask_batch + r->h * s->mask_head + r->i * s->keys + j] != 0);
}

/* 0 or 1 / (1 - p) */
static double factor(const row *r, int64_t j)
{
    const mx_attention_shape *s = r->s;
    const int64_t number = (r->n * s->heads + r->h) * s->queries + r->i;
    if (s->dropout == 0)
        return 1;
    return mx_attention_keeps(r->v->rng, number, s->keys, j, mx_attention_threshold(s->dropout)) ? 1 / (1 - s->dropout)
                                                                                                 : 0;
}

static double score(const row *r, int64_t j)
{
    double sum = 0;
    for (int64_t d = 0; d < r->s->size; d++)
        sum += at(r->v->input, &r->s->query, r->n, r->i, r->h, d) * at(r->v->input, &r->s->key, r->n, j, kv_head(r), d);
    return sum * r->s->scale;
}

/* The logarithm of the sum of exponentials; 0 if the query sees nothing */
static double log_sum(const row *r)
{
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < r->s->keys; j++)
        if (sees(r, j))
            most = fmax(most, score(r, j));
    for (int64_t j = 0; j < r->s->keys; j++)
        if (sees(r, j))
            sum += exp(score(r, j) - most);
    return sum > 0 ? most + log(sum) : 0;
}

#define EACH_ROW(r) \
    for (int64_t e = 0; e < s->batch * s->heads * s->queries; e++) \
        for (row one = {s, v, e / s->queries / s->heads, e / s->queries % s->heads, e % s->queries}, *r = &one; r; r = NULL)

void mx_attention_reference(const mx_attention_shape *s, const mx_attention_values *v, double *out, double *lse)
{
    EACH_ROW(r)
    {
        double *y = out + r->n * s->out.batch + r->i * s->out.time + r->h * s->out.head;
        lse[e] = log_sum(r);
        for (int64_t d = 0; d < s->size; d++)
            y[d] = 0;
        for (int64_t j = 0; j < s->keys; j++) {
            const double weight = sees(r, j) ? exp(score(r, j) - lse[e]) * factor(r, j) : 0;
            for (int64_t d = 0; d < s->size; d++)
                y[d] += weight * at(v->input, &s->value, r->n, j, kv_head(r), d);
        }
    }
}

static void add(double *const *gradient, const mx_attention_place *p, int64_t n, int64_t t, int64_t h, int64_t d,
                double x)
{
    gradient[p->input][p->first + n * p->batch + t * p->time + h * p->head + d] += x;
}

/* dv += w f g,  ds = w (f g.v - g.out),  dq += scale ds k,  dk += scale ds q;  w = exp(score - lse), f of dropout.
 * gradient: arrays of zeros. */
void mx_attention_back_reference(const mx_attention_shape *s, const mx_attention_values *v, const double *g,
                                 const double *out, const double *lse, double *const *gradient)
{
    EACH_ROW(r)
    {
        const int64_t first = r->n * s->out.batch + r->i * s->out.time + r->h * s->out.head, kv = kv_head(r);
        double delta = 0;
        for (int64_t d = 0; d < s->size; d++)
            delta += g[first + d] * out[first + d];
        for (int64_t j = 0; j < s->keys; j++) {
            double weight = sees(r, j) ? exp(score(r, j) - lse[e]) : 0, product = 0;
            for (int64_t d = 0; d < s->size; d++)
                product += g[first + d] * at(v->input, &s->value, r->n, j, kv, d);
            const double change = s->scale * weight * (factor(r, j) * product - delta);
            for (int64_t d = 0; d < s->size; d++) {
                add(gradient, &s->value, r->n, j, kv, d, weight * factor(r, j) * g[first + d]);
                add(gradient, &s->query, r->n, r->i, r->h, d, change * at(v->input, &s->key, r->n, j, kv, d));
                add(gradient, &s->key, r->n, j, kv, d, change * at(v->input, &s->query, r->n, r->i, r->h, d));
            }
        }
    }
}

void mx_attention_pattern_reference(const mx_attention_shape *s, const mx_attention_values *v, double *seen,
                                    double *kept)
{
    EACH_ROW(r)
    for (int64_t j = 0; j < s->keys; j++) {
        seen[e * s->keys + j] = sees(r, j);
        kept[e * s->keys + j] = factor(r, j);
    }
}
