/* Softmax loops for element type T: included once per type with T, NAME(x), EXP, EXP_NEGATIVE and LOG defined (see softmax.c).
 *
 * Rows are contiguous (inner == 1) or stand side by side as columns of a block of up to COLUMNS.
 *
 * SPDX-License-Identifier: Apache-2.0 */

/* y = exp(x - max), and their sum; y may be x. */
static T NAME(exp_sum)(const T *x, T *y, int64_t n, T max)
{
    const int64_t lanes = MX_VECTOR_BYTES / sizeof(T);
    NAME(vector) sums = {0};
    int64_t at = 0;
    for (; at + lanes <= n; at += lanes) {
        const NAME(vector) terms = NAME(exp_vector)(*(const NAME(vector) *)(x + at) - max);
        *(NAME(vector) *)(y + at) = terms;
        sums += terms;
    }
    T sum = NAME(lanes_sum)(sums);
    for (; at < n; at++)
        sum += y[at] = EXP_NEGATIVE(x[at] - max);
    return sum;
}

/* Maximum and sum of exp(x - maximum) of a row whose values stand `step` apart, in one pass: each piece takes the
 * largest value so far as its own maximum, and the sum is scaled when a larger one comes.  With `terms` (then step is 1)
 * the exponentials are kept there and the maximum of each piece in `tops`. */
static T NAME(row_online)(const T *x, int64_t n, int64_t step, int64_t length, T *terms, T *tops, T *maximum)
{
    T piece[PIECE], max = -(T)INFINITY, sum = 0;
    for (int64_t at = 0; at < n; at += length) {
        const int64_t count = n - at < length ? n - at : length;
        const T *source = x + at;
        if (step != 1) {
            for (int64_t i = 0; i < count; i++)
                piece[i] = x[(at + i) * step];
            source = piece;
        }
        const T top = NAME(row_max)(source, count);
        if (top > max)
            sum *= EXP(max - top), max = top;
        sum += NAME(exp_sum)(source, terms ? terms + at : piece, count, max > -(T)INFINITY ? max : 0);
        if (tops)
            tops[at / length] = max;
    }
    *maximum = max;
    return sum;
}

/* One contiguous row of n values, of which the first `valid` count. */
static void NAME(softmax_row)(const softmax_job *job, const T *x, T *y, int64_t valid)
{
    T tops[PIECES], max;
    if (job->scale != 1)
        NAME(row_multiply)(x, y, valid, (T)job->scale), x = y;
    if (job->logarithm) {
        const T log_sum = LOG(NAME(row_online)(x, valid, 1, PIECE, NULL, NULL, &max));
        MX_IVDEP
        for (int64_t i = 0; i < valid; i++)
            y[i] = (x[i] - max) - log_sum; /* in this order: max + log_sum may lose log_sum */
    } else {
        const int64_t length = (1 + valid / (PIECE * PIECES)) * PIECE;
        const T sum = NAME(row_online)(x, valid, 1, length, y, tops, &max);
        for (int64_t at = 0; at < valid; at += length)
            NAME(row_multiply)(y + at, y + at, valid - at < length ? valid - at : length,
                               EXP(tops[at / length] - max) / sum);
    }
    for (int64_t i = valid; i < job->n; i++)
        y[i] = 0;
}

/* True if no exponential of these leaves the range, so that no maximum has to be subtracted. */
static bool NAME(is_moderate)(const T *x, int64_t n)
{
    int far = 0;
    for (int64_t i = 0; i < n; i++)
        far |= !((x[i] < 0 ? -x[i] : x[i]) <= 64);
    return !far;
}

/* Short rows, as many as fit into a piece: one long loop of exponentials instead of many short ones. */
static void NAME(softmax_short)(const softmax_job *job, const T *x, T *y, int64_t rows)
{
    const int64_t n = job->n, total = rows * n;
    T kept[PIECE], *terms = job->logarithm ? kept : y;
    const bool moderate = !job->logarithm && job->scale == 1 && NAME(is_moderate)(x, total);
    for (int64_t at = 0; at < total && !moderate; at += n) {
        const T *from = x + at;
        if (job->scale != 1)
            NAME(row_multiply)(from, y + at, n, (T)job->scale), from = y + at;
        NAME(row_subtract)(from, y + at, n, NAME(row_max)(from, n));
    }
    const T *exponents = moderate ? x : y;
    MX_IVDEP
    for (int64_t i = 0; i < total; i++)
        terms[i] = EXP_NEGATIVE(exponents[i]);
    for (int64_t at = 0; at < total; at += n) {
        const T sum = NAME(row_sum)(terms + at, n);
        if (job->logarithm)
            NAME(row_subtract)(y + at, y + at, n, LOG(sum));
        else
            NAME(row_multiply)(y + at, y + at, n, 1 / sum);
    }
}

/* `width` rows side by side: x (n, inner). */
static void NAME(softmax_columns)(const softmax_job *job, const T *x, T *y, const int64_t *valid, int64_t width)
{
    const int64_t n = job->n, inner = job->inner;
    const T scale = (T)job->scale;
    T max[COLUMNS], sum[COLUMNS];
    for (int64_t c = 0; c < width; c++)
        max[c] = -(T)INFINITY, sum[c] = 0;
    for (int64_t a = 0; a < n; a++)
        for (int64_t c = 0; c < width; c++) {
            const T value = x[a * inner + c] * scale;
            max[c] = a < valid[c] && value > max[c] ? value : max[c];
        }
    for (int64_t a = 0; a < n; a++) {
        T term[COLUMNS];
        for (int64_t c = 0; c < width; c++)
            term[c] = EXP_NEGATIVE(x[a * inner + c] * scale - max[c]);
        for (int64_t c = 0; c < width; c++)
            sum[c] += a < valid[c] ? term[c] : 0;
        for (int64_t c = 0; c < width && !job->logarithm; c++)
            y[a * inner + c] = a < valid[c] ? term[c] : 0;
    }
    for (int64_t c = 0; c < width; c++)
        sum[c] = job->logarithm ? max[c] + LOG(sum[c]) : sum[c] != 0 ? 1 / sum[c] : 0;
    for (int64_t a = 0; a < n; a++)
        for (int64_t c = 0; c < width; c++) {
            const int64_t i = a * inner + c;
            y[i] = !job->logarithm ? y[i] * sum[c] : a < valid[c] ? x[i] * scale - sum[c] : 0;
        }
}

/* Contiguous rows, some together if they are short. */
static void NAME(softmax_rows)(const softmax_job *job, int64_t begin, int64_t end)
{
    const int64_t n = job->n, fit = n ? PIECE / n : 0, together = fit > 1 && !job->valid ? fit : 1;
    for (int64_t row = begin; row < end; row += together) {
        const T *x = (const T *)job->in[0] + row * n;
        T *y = (T *)job->out + row * n;
        if (together > 1)
            NAME(softmax_short)(job, x, y, end - row < together ? end - row : together);
        else
            NAME(softmax_row)(job, x, y, job->valid ? job->valid[row] : n);
    }
}

static void NAME(softmax_range)(void *arg, int64_t begin, int64_t end)
{
    const softmax_job *job = arg;
    const T *x = job->in[0];
    T *y = job->out;
    if (job->inner == 1) {
        NAME(softmax_rows)(job, begin, end);
        return;
    }
    int64_t all[COLUMNS];
    for (int64_t c = 0; c < COLUMNS; c++)
        all[c] = job->n;
    const int64_t blocks = (job->inner + COLUMNS - 1) / COLUMNS;
    for (int64_t block = begin; block < end; block++) {
        const int64_t o = block / blocks, c = block % blocks * COLUMNS, at = o * job->n * job->inner + c;
        NAME(softmax_columns)(job, x + at, y + at, job->valid ? job->valid + o * job->inner + c : all,
                              job->inner - c < COLUMNS ? job->inner - c : COLUMNS);
    }
}

/* ---- gradients -------------------------------------------------------------------------------------------- */

/* softmax: dx = scale y (g - sum(g y)); log_softmax: dx = scale (g - exp(y) sum(g)) */
static void NAME(backward_row)(const softmax_job *job, const T *g, const T *y, T *dx)
{
    const int64_t n = job->n;
    const T scale = (T)job->scale;
    if (job->logarithm) {
        const T sum = NAME(row_sum)(g, n);
        MX_IVDEP
        for (int64_t i = 0; i < n; i++)
            dx[i] = scale * (g[i] - EXP(y[i]) * sum);
        return;
    }
    const T sum = NAME(row_dot)(g, y, n);
    MX_IVDEP
    for (int64_t i = 0; i < n; i++)
        dx[i] = scale * y[i] * (g[i] - sum);
}

static void NAME(backward_columns)(const softmax_job *job, const T *g, const T *y, T *dx, int64_t width)
{
    const int64_t n = job->n, inner = job->inner;
    const T scale = (T)job->scale;
    T sum[COLUMNS] = {0};
    for (int64_t a = 0; a < n; a++)
        for (int64_t c = 0; c < width; c++)
            sum[c] += g[a * inner + c] * (job->logarithm ? 1 : y[a * inner + c]);
    for (int64_t a = 0; a < n; a++)
        for (int64_t c = 0; c < width; c++) {
            const T gi = g[a * inner + c], yi = y[a * inner + c];
            dx[a * inner + c] = scale * (job->logarithm ? gi - EXP(yi) * sum[c] : yi * (gi - sum[c]));
        }
}

static void NAME(backward_range)(void *arg, int64_t begin, int64_t end)
{
    const softmax_job *job = arg;
    const T *g = job->in[0], *y = job->in[1];
    T *dx = job->out;
    const int64_t blocks = (job->inner + COLUMNS - 1) / COLUMNS;
    for (int64_t block = begin; block < end; block++) {
        const int64_t c = block % blocks * COLUMNS, at = block / blocks * job->n * job->inner + c;
        if (job->inner == 1)
            NAME(backward_row)(job, g + at, y + at, dx + at);
        else
            NAME(backward_columns)(job, g + at, y + at, dx + at, job->inner - c < COLUMNS ? job->inner - c : COLUMNS);
    }
}

/* ---- cross entropy ---------------------------------------------------------------------------------------- */

/* loss = lse - x[label], or sum(label (lse - x)) for distributions */
static void NAME(ce_range)(void *arg, int64_t begin, int64_t end)
{
    const softmax_job *job = arg;
    const int64_t n = job->n, inner = job->inner;
    T *loss = job->out, *lses = job->lse;
    for (int64_t row = begin; row < end; row++) {
        const int64_t at = row / inner * n * inner + row % inner;
        const T *x = (const T *)job->in[0] + at;
        T max, value = 0;
        const T sum = NAME(row_online)(x, n, inner, PIECE, NULL, NULL, &max), lse = max + LOG(sum);
        if (job->valid)
            value = lse - x[job->valid[row] * inner];
        else
            for (int64_t k = 0; k < n; k++)
                value += ((const T *)job->in[1])[at + k * inner] * (lse - x[k * inner]);
        loss[row] = value;
        lses[row] = lse;
    }
}

/* dx = g (mass exp(x - lse) - target), mass: sum of the targets */
static void NAME(ce_backward_row)(const T *x, const T *target, T *dx, int64_t n, int64_t step, T g, T lse,
                                  int64_t label)
{
    T mass = target ? 0 : 1;
    for (int64_t k = 0; target && k < n; k++)
        mass += target[k * step];
    if (step == 1) {
        MX_IVDEP
        for (int64_t k = 0; k < n; k++)
            dx[k] = g * mass * EXP_NEGATIVE(x[k] - lse);
    } else {
        for (int64_t k = 0; k < n; k++)
            dx[k * step] = g * mass * EXP_NEGATIVE(x[k * step] - lse);
    }
    if (!target)
        dx[label * step] -= g;
    for (int64_t k = 0; target && k < n; k++)
        dx[k * step] -= g * target[k * step];
}

static void NAME(ce_backward_range)(void *arg, int64_t begin, int64_t end)
{
    const softmax_job *job = arg;
    const int64_t n = job->n, inner = job->inner;
    const T *g = job->in[1], *lse = job->lse, *target = job->in[2];
    for (int64_t row = begin; row < end; row++) {
        const int64_t at = row / inner * n * inner + row % inner;
        NAME(ce_backward_row)((const T *)job->in[0] + at, target ? target + at : NULL, (T *)job->out + at, n, inner,
                              g[row], lse[row], job->valid ? job->valid[row] : 0);
    }
}
