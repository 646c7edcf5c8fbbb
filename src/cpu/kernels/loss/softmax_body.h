/* Softmax loops for element type T: included once per type with T, NAME(x), EXP, EXP_NEGATIVE and LOG defined (see softmax.c).
 *
 * Rows are contiguous (inner == 1) or are columns of a block of up to COLUMNS; long columns ask whether to stop, short ones never.
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

/* Maximum and sum of exp(x - maximum) of a row whose values are `step` apart, in one pass: each piece uses the
 * largest value so far as its maximum, and the sum is rescaled when a larger one appears.  With `terms` (then step is
 * 1) the exponentials are stored there and the maximum of each piece in `tops`. */
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

/* One contiguous row of n values, of which the first `valid` are used. */
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

/* True if no exponential of these overflows or underflows, so that no maximum has to be subtracted. */
static bool NAME(is_moderate)(const T *x, int64_t n)
{
    int far = 0;
    for (int64_t i = 0; i < n; i++)
        far |= !((x[i] < 0 ? -x[i] : x[i]) <= 64);
    return !far;
}

/* Short rows, as many as fit into a piece: one long loop of exponentials instead of many short ones.  Each row is treated
 * separately: which rows are grouped depends on the threads. */
static void NAME(softmax_short)(const softmax_job *job, const T *x, T *y, int64_t rows)
{
    const int64_t n = job->n, total = rows * n;
    T kept[PIECE], *terms = job->logarithm ? kept : y;
    const bool moderate = !job->logarithm && job->scale == 1 && NAME(is_moderate)(x, total);
    for (int64_t at = 0; at < total && !moderate; at += n) {
        const T *from = x + at;
        if (job->scale != 1)
            NAME(row_multiply)(from, y + at, n, (T)job->scale), from = y + at;
        const bool near = !job->logarithm && job->scale == 1 && NAME(is_moderate)(from, n);
        NAME(row_subtract)(from, y + at, n, near ? 0 : NAME(row_max)(from, n));
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

/* `width` rows side by side, x (n, inner): the shift of their values, or the factors of the terms in y. */
static inline void NAME(column_sums)(const softmax_job *job, const T *x, T *y, const int64_t *valid, int64_t width,
                                     T *sum)
{
    const int64_t n = job->n, inner = job->inner;
    const T scale = (T)job->scale;
    T max[COLUMNS];
    for (int64_t c = 0; c < width; c++)
        max[c] = -(T)INFINITY, sum[c] = 0;
    for (int64_t a = 0; a < n && !mx_stop_wanted_at(a + 1); a++)
        for (int64_t c = 0; c < width; c++) {
            const T value = x[a * inner + c] * scale;
            max[c] = a < valid[c] && value > max[c] ? value : max[c];
        }
    for (int64_t a = 0; a < n && !mx_stop_wanted_at(a + 1); a++) {
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
}

static void NAME(softmax_columns)(const softmax_job *job, const T *x, T *y, const int64_t *valid, int64_t width)
{
    const int64_t n = job->n, inner = job->inner;
    const T scale = (T)job->scale;
    T sum[COLUMNS];
    NAME(column_sums)(job, x, y, valid, width, sum);
    for (int64_t a = 0; a < n && !mx_stop_wanted_at(a + 1); a++)
        for (int64_t c = 0; c < width; c++) {
            const int64_t i = a * inner + c;
            y[i] = !job->logarithm ? y[i] * sum[c] : a < valid[c] ? x[i] * scale - sum[c] : 0;
        }
}

/* How many contiguous rows are processed at once. */
static inline int64_t NAME(rows_together)(const softmax_job *job)
{
    const int64_t fit = job->n ? PIECE / job->n : 0;
    return fit > 1 && !job->valid ? fit : 1;
}

/* Contiguous rows, some together if they are short. */
static void NAME(softmax_rows)(const softmax_job *job, int64_t begin, int64_t end)
{
    const int64_t n = job->n, together = NAME(rows_together)(job);
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

/* The gradient of a value of log_softmax. */
static inline T NAME(log_slope)(T g, T y, T sum, T scale) { return scale * (g - EXP(y) * sum); }

/* softmax: dx = scale y (g - sum(g y)); log_softmax: dx = scale (g - exp(y) sum(g)) */
static void NAME(backward_row)(const softmax_job *job, const T *g, const T *y, T *dx)
{
    const int64_t n = job->n;
    const T scale = (T)job->scale;
    if (job->logarithm) {
        const T sum = NAME(row_sum)(g, n);
        MX_IVDEP
        for (int64_t i = 0; i < n; i++)
            dx[i] = NAME(log_slope)(g[i], y[i], sum, scale);
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
    for (int64_t a = 0; a < n && !mx_stop_wanted_at(a + 1); a++)
        for (int64_t c = 0; c < width; c++)
            sum[c] += g[a * inner + c] * (job->logarithm ? 1 : y[a * inner + c]);
    for (int64_t a = 0; a < n && !mx_stop_wanted_at(a + 1); a++)
        for (int64_t c = 0; c < width; c++) {
            const T gi = g[a * inner + c], yi = y[a * inner + c];
            dx[a * inner + c] = job->logarithm ? NAME(log_slope)(gi, yi, sum[c], scale) : scale * (yi * (gi - sum[c]));
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

/* Class indices as labels: the loss is minus one value of log_softmax, and its gradient is log_softmax's for a gradient that
 * is zero elsewhere.  Both use the functions above, tile by tile, so results equal those of the separate operators. */

static softmax_job NAME(ce_logarithms)(const softmax_job *job)
{
    return (softmax_job){.n = job->n, .inner = job->inner, .scale = 1, .logarithm = true};
}

static void NAME(ce_short)(const softmax_job *job, int64_t row, int64_t rows)
{
    const softmax_job log = NAME(ce_logarithms)(job);
    const T *x = (const T *)job->in[0] + row * job->n;
    T y[PIECE];
    NAME(softmax_short)(&log, x, y, rows);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t at = r * job->n + job->valid[row + r];
        ((T *)job->out)[row + r] = -y[at];
        ((T *)job->lse)[row + r] = x[at] - y[at];
    }
}

static void NAME(ce_row)(const softmax_job *job, int64_t row)
{
    const T *x = (const T *)job->in[0] + row * job->n;
    T max;
    const T log_sum = LOG(NAME(row_online)(x, job->n, 1, PIECE, NULL, NULL, &max));
    ((T *)job->out)[row] = -((x[job->valid[row]] - max) - log_sum);
    ((T *)job->lse)[row] = max + log_sum;
}

static void NAME(ce_columns)(const softmax_job *job, int64_t block, int64_t blocks)
{
    const softmax_job log = NAME(ce_logarithms)(job);
    const int64_t inner = job->inner, c = block % blocks * COLUMNS, row = block / blocks * inner + c;
    const int64_t width = inner - c < COLUMNS ? inner - c : COLUMNS;
    const T *x = (const T *)job->in[0] + block / blocks * job->n * inner + c;
    int64_t all[COLUMNS];
    for (int64_t k = 0; k < COLUMNS; k++)
        all[k] = job->n;
    T *lse = (T *)job->lse + row;
    NAME(column_sums)(&log, x, NULL, all, width, lse);
    for (int64_t k = 0; k < width; k++)
        ((T *)job->out)[row + k] = -(x[job->valid[row + k] * inner + k] - lse[k]);
}

static void NAME(ce_class_range)(void *arg, int64_t begin, int64_t end)
{
    const softmax_job *job = arg, log = NAME(ce_logarithms)(job);
    const int64_t blocks = (job->inner + COLUMNS - 1) / COLUMNS, together = NAME(rows_together)(&log);
    for (int64_t row = begin; row < end; row += job->inner == 1 ? together : 1) {
        if (job->inner > 1)
            NAME(ce_columns)(job, row, blocks);
        else if (together > 1)
            NAME(ce_short)(job, row, end - row < together ? end - row : together);
        else
            NAME(ce_row)(job, row);
    }
}

/* y holds log_softmax and becomes the gradient; returns the loss. */
static T NAME(ce_slopes)(T *y, int64_t n, int64_t label, T g)
{
    const T loss = -y[label], own = 0 - g; /* a positive zero, as when gradients are added up */
    const T there = NAME(log_slope)(own, y[label], own, 1);
    MX_IVDEP
    for (int64_t i = 0; i < n; i++)
        y[i] = NAME(log_slope)(0, y[i], own, 1);
    y[label] = there;
    return loss;
}

static void NAME(ce_column_slopes)(const softmax_job *job, int64_t block, int64_t blocks)
{
    const int64_t n = job->n, inner = job->inner, c = block % blocks * COLUMNS, row = block / blocks * inner + c;
    const int64_t width = inner - c < COLUMNS ? inner - c : COLUMNS;
    const T *g = (const T *)job->in[1] + row;
    T *y = (T *)job->out + block / blocks * n * inner + c, there[COLUMNS];
    for (int64_t k = 0; k < width; k++) {
        const T chosen = y[job->valid[row + k] * inner + k];
        there[k] = NAME(log_slope)(0 - g[k], chosen, 0 - g[k], 1);
        ((T *)job->loss)[row + k] = -chosen;
    }
    for (int64_t a = 0; a < n; a++)
        for (int64_t k = 0; k < width; k++)
            y[a * inner + k] = NAME(log_slope)(0, y[a * inner + k], 0 - g[k], 1);
    for (int64_t k = 0; k < width; k++)
        y[job->valid[row + k] * inner + k] = there[k];
}

static void NAME(ce_class_gradient_range)(void *arg, int64_t begin, int64_t end)
{
    const softmax_job *job = arg;
    softmax_job log = NAME(ce_logarithms)(job);
    const int64_t blocks = (job->inner + COLUMNS - 1) / COLUMNS, together = NAME(rows_together)(&log);
    log.in[0] = job->in[0], log.out = job->out;
    for (int64_t at = begin, next; at < end; at = next) {
        next = job->inner > 1 ? at + 1 : end - at < together ? end : at + together;
        NAME(softmax_range)(&log, at, next);
        if (job->inner > 1)
            NAME(ce_column_slopes)(job, at, blocks);
        for (int64_t row = at; job->inner == 1 && row < next; row++)
            ((T *)job->loss)[row] =
                NAME(ce_slopes)((T *)job->out + row * job->n, job->n, job->valid[row], ((const T *)job->in[1])[row]);
    }
}

/* Distributions as labels: loss = sum(label (lse - x)) */
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
