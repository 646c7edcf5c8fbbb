/* Attention for element type T: included once per type with T, NAME(x), GEMM, GEMM_RUN and LOG defined (see
 * attention_fused.c, which has the job and the order of the work).
 *
 * A tile is the products of up to TILE_QUERIES queries with up to TILE_KEYS keys, in rows of TILE_KEYS elements.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#define V NAME(vector)
#define LANES ((int64_t)(MX_VECTOR_BYTES / sizeof(T)))

/* Temporary memory of one thread. */
typedef struct NAME(room) {
    T weights[TILE_QUERIES * TILE_KEYS]; /* scores, then weights of a tile */
    T change[TILE_QUERIES * TILE_KEYS];  /* gradients of weights, then of scores */
    T most[TILE_QUERIES], sum[TILE_QUERIES];
    uint8_t sees[TILE_KEYS], keeps[TILE_KEYS];
    T result[]; /* (TILE_QUERIES, size) */
} NAME(room);

static size_t NAME(room_bytes)(const attention_job *job)
{
    return (sizeof(NAME(room)) + (size_t)(TILE_QUERIES * job->s.size) * sizeof(T) + 63) / 64 * 64;
}

static const T *NAME(role)(const attention_job *job, const mx_attention_place *p, int64_t n, int64_t t, int64_t h)
{
    return (const T *)job->in[p->input] + p->first + n * p->batch + t * p->time + h * p->head;
}
static T *NAME(gradient)(const attention_job *job, const mx_attention_place *p, int64_t n, int64_t t, int64_t h)
{
    return (T *)job->gradient[p->input] + p->first + n * p->batch + t * p->time + h * p->head;
}

/* ---- products ------------------------------------------------------------------------------------------------------ */

/* tile = alpha a b':  a (queries, size), b (keys, size) */
static void NAME(match)(attention_job *job, const tile_at *at, const T *a, int64_t a_row, const T *b, int64_t b_row,
                        T *tile, double alpha)
{
    const GEMM g = {.trans_b = true, .m = at->queries, .n = at->keys, .k = job->s.size, .alpha = (T)alpha, .a = a, .lda = a_row,
                    .b = b, .ldb = b_row, .c = tile, .ldc = TILE_KEYS, .batch = 1};
    if (GEMM_RUN(&g))
        job->failed = true;
}

/* c = alpha op(tile) b + beta c:  c (queries or, if transposed, keys, size) */
static void NAME(weigh)(attention_job *job, const tile_at *at, const T *tile, bool transposed, const T *b,
                        int64_t b_row, T *c, int64_t c_row, double alpha, bool add)
{
    const GEMM g = {.trans_a = transposed, .m = transposed ? at->keys : at->queries, .k = transposed ? at->queries : at->keys,
                    .n = job->s.size, .alpha = (T)alpha, .beta = add, .a = tile, .lda = TILE_KEYS, .b = b, .ldb = b_row, .c = c,
                    .ldc = c_row, .batch = 1};
    if (GEMM_RUN(&g))
        job->failed = true;
}

/* ---- rows of a tile -------------------------------------------------------------------------------------------------- */

/* Fills x up to the tile's last key, and up to full vectors; hidden keys become `value`.  Returns how many keys are seen. */
static int64_t NAME(hide)(const attention_job *job, const tile_at *at, int64_t i, uint8_t *sees, T *x, T value)
{
    const int64_t seen = row_seen(job, at, i), end = (at->keys + LANES - 1) / LANES * LANES;
    for (int64_t j = seen; j < end; j++)
        x[j] = value;
    if (seen && job->mask) {
        row_mask(job, at, i, seen, sees);
        for (int64_t j = 0; j < seen; j++)
            x[j] = sees[j] ? x[j] : value;
    }
    return seen;
}

/* x = exp(x - most) in full vectors; returns the sum of the first n */
static T NAME(exponentials)(T *x, int64_t n, T most)
{
    V sums = {0};
    for (int64_t j = 0; j < n; j += LANES) {
        const V terms = NAME(exp_vector)(*(const V *)(x + j) - most);
        *(V *)(x + j) = terms;
        sums += terms;
    }
    return NAME(lanes_sum)(sums);
}

static void NAME(drop)(const attention_job *job, const tile_at *at, int64_t i, NAME(room) *room, T *x)
{
    row_keeps(job, at, i, room->keeps);
    MX_IVDEP
    for (int64_t j = 0; j < at->keys; j++)
        x[j] = room->keeps[j] ? x[j] : 0;
}

/* ---- forward ----------------------------------------------------------------------------------------------------------- */

/* The scores of a tile become weights relative to the largest score so far; what was summed up with a smaller one shrinks. */
static void NAME(soften)(const attention_job *job, const tile_at *at, NAME(room) *room)
{
    for (int64_t i = 0; i < at->queries; i++) {
        T *x = room->weights + i * TILE_KEYS, *result = room->result + i * job->s.size;
        NAME(hide)(job, at, i, room->sees, x, -(T)INFINITY);
        const T top = NAME(row_max)(x, at->keys), before = room->most[i], most = top > before ? top : before;
        if (most == -(T)INFINITY) { /* nothing is seen so far */
            memset(x, 0, (size_t)at->keys * sizeof(T));
            continue;
        }
        const T sum = NAME(exponentials)(x, at->keys, most), shrink = most == before ? 1 : NAME(exp_one)(before - most);
        room->sum[i] = room->sum[i] * shrink + sum;
        room->most[i] = most;
        if (shrink != 1 && at->key)
            NAME(row_multiply)(result, result, job->s.size, shrink);
        if (job->s.dropout > 0)
            NAME(drop)(job, at, i, room, x);
    }
}

static void NAME(finish)(const attention_job *job, const tile_at *at, const NAME(room) *room)
{
    const double keep = job->s.dropout < 1 ? 1 / (1 - job->s.dropout) : 0;
    for (int64_t i = 0; i < at->queries; i++) {
        const mx_attention_place *p = &job->s.out;
        T *out = (T *)job->out + at->n * p->batch + (at->query + i) * p->time + at->h * p->head;
        T *lse = (T *)job->lse + (at->n * job->s.heads + at->h) * job->s.queries + at->query + i;
        const T sum = room->sum[i];
        *lse = sum > 0 ? room->most[i] + LOG(sum) : 0;
        if (sum > 0)
            NAME(row_multiply)(room->result + i * job->s.size, out, job->s.size, (T)keep / sum);
        else /* nothing is seen, unless something is not a number */
            for (int64_t d = 0; d < job->s.size; d++)
                out[d] = sum == 0 ? 0 : sum;
    }
}

/* The queries of one tile with all keys that they see. */
static void NAME(forward)(attention_job *job, tile_at *at, void *memory)
{
    NAME(room) *room = memory;
    const mx_attention_shape *s = &job->s;
    const int64_t kv = at->h / (s->heads / s->kv_heads), seen = tile_seen(job, at);
    for (int64_t i = 0; i < at->queries; i++)
        room->most[i] = -(T)INFINITY, room->sum[i] = 0;
    const T *query = NAME(role)(job, &s->query, at->n, at->query, at->h);
    for (at->key = 0; at->key < seen; at->key += TILE_KEYS) {
        at->keys = seen - at->key < TILE_KEYS ? seen - at->key : TILE_KEYS;
        NAME(match)(job, at, query, s->query.time, NAME(role)(job, &s->key, at->n, at->key, kv), s->key.time,
                    room->weights, s->scale);
        NAME(soften)(job, at, room);
        NAME(weigh)(job, at, room->weights, false, NAME(role)(job, &s->value, at->n, at->key, kv), s->value.time,
                    room->result, s->size, 1, at->key > 0);
    }
    NAME(finish)(job, at, room);
}

/* ---- backward ------------------------------------------------------------------------------------------------------------ */

/* delta = g . out of the queries [begin, end) of all batch entries and heads */
static void NAME(deltas)(void *arg, int64_t begin, int64_t end)
{
    const attention_job *job = arg;
    const mx_attention_shape *s = &job->s;
    for (int64_t e = begin; e < end; e++) {
        const int64_t i = e % s->queries, h = e / s->queries % s->heads, n = e / s->queries / s->heads;
        const int64_t first = n * s->out.batch + i * s->out.time + h * s->out.head;
        ((T *)job->delta)[e] = NAME(row_dot)((const T *)job->g + first, (const T *)job->out + first, s->size);
    }
}

/* Scores and products g v' of a tile become weights w f and gradients of scores w (f g v' - delta), f of dropout. */
static void NAME(soften_again)(const attention_job *job, const tile_at *at, NAME(room) *room)
{
    const int64_t row = (at->n * job->s.heads + at->h) * job->s.queries + at->query;
    const T keep = (T)(job->s.dropout < 1 ? 1 / (1 - job->s.dropout) : 0);
    for (int64_t i = 0; i < at->queries; i++) {
        T *w = room->weights + i * TILE_KEYS, *change = room->change + i * TILE_KEYS;
        const T delta = ((const T *)job->delta)[row + i];
        NAME(hide)(job, at, i, room->sees, w, -(T)INFINITY);
        NAME(exponentials)(w, at->keys, ((const T *)job->lse)[row + i]);
        if (job->s.dropout == 0) {
            MX_IVDEP
            for (int64_t j = 0; j < at->keys; j++)
                change[j] = w[j] * (change[j] - delta);
            continue;
        }
        row_keeps(job, at, i, room->keeps);
        MX_IVDEP
        for (int64_t j = 0; j < at->keys; j++) {
            const T factor = room->keeps[j] ? keep : 0;
            change[j] = w[j] * (change[j] * factor - delta);
            w[j] *= factor;
        }
    }
}

/* One tile's share of the gradients of its queries (the first tile of keys sets them), of its keys and values, or of all. */
static void NAME(backward)(attention_job *job, const tile_at *at, void *memory, bool queries, bool keys)
{
    NAME(room) *room = memory;
    const mx_attention_shape *s = &job->s;
    const int64_t kv = at->h / (s->heads / s->kv_heads);
    const T *q = NAME(role)(job, &s->query, at->n, at->query, at->h), *k = NAME(role)(job, &s->key, at->n, at->key, kv),
            *v = NAME(role)(job, &s->value, at->n, at->key, kv);
    const T *g = (const T *)job->g + at->n * s->out.batch + at->query * s->out.time + at->h * s->out.head;
    NAME(match)(job, at, q, s->query.time, k, s->key.time, room->weights, s->scale);
    NAME(match)(job, at, g, s->out.time, v, s->value.time, room->change, 1);
    NAME(soften_again)(job, at, room);
    if (queries)
        NAME(weigh)(job, at, room->change, false, k, s->key.time,
                    NAME(gradient)(job, &s->query, at->n, at->query, at->h), s->query.time, s->scale, at->key > 0);
    if (!keys)
        return;
    NAME(weigh)(job, at, room->change, true, q, s->query.time, NAME(gradient)(job, &s->key, at->n, at->key, kv),
                s->key.time, s->scale, true);
    NAME(weigh)(job, at, room->weights, true, g, s->out.time, NAME(gradient)(job, &s->value, at->n, at->key, kv),
                s->value.time, 1, true);
}

/* Gradients of `count` places that no tile contributes to. */
static void NAME(clear)(const attention_job *job, const mx_attention_place *p, int64_t n, int64_t t, int64_t h,
                        int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        memset(NAME(gradient)(job, p, n, t + i, h), 0, (size_t)job->s.size * sizeof(T));
}

#undef V
#undef LANES
