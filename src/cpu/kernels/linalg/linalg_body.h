/* Factorisations and triangular solves for one element type.
 *
 * Included once per type with T, NAME(x), GEMM and GEMM_RUN defined.  All of them split a matrix in halves until a
 * block is small; blocks off the diagonal use the matrix product.  Matrices are row-major with
 * any leading dimension.  A call that is to be stopped (base/interrupt.h) leaves the rest undone; mx_linalg_each notices.
 *
 * SPDX-License-Identifier: Apache-2.0 */

/* C (m, n) = alpha op(A) op(B) + beta C */
static mx_code NAME(multiply)(bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha, const T *a, int64_t lda,
                              const T *b, int64_t ldb, double beta, T *c, int64_t ldc)
{
    GEMM g = {.trans_a = ta, .trans_b = tb, .m = m, .n = n, .k = k, .alpha = (T)alpha, .beta = (T)beta, .a = a, .lda = lda,
              .b = b, .ldb = ldb, .c = c, .ldc = ldc, .batch = 1};
    return m && n ? GEMM_RUN(&g) : MX_OK;
}

static void NAME(identity)(T *a, int64_t n)
{
    memset(a, 0, (size_t)(n * n) * sizeof(T));
    for (int64_t i = 0; i < n; i++)
        a[i * (n + 1)] = 1;
}

static void NAME(turn_round)(T *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) {
            const T swap = a[i * n + j];
            a[i * n + j] = a[j * n + i];
            a[j * n + i] = swap;
        }
}

/* ---- triangular solves ----------------------------------------------------------------------------------------- */

/* op(A) X = X in place, X (n, others): rows are subtracted from rows. */
static void NAME(solve_left)(const triangle *t, const T *a, int64_t lda, int64_t n, T *x, int64_t ldx, int64_t others)
{
    const bool forward = t->lower != t->transpose;
    for (int64_t s = 0; s < n; s++) {
        const int64_t i = forward ? s : n - 1 - s;
        for (int64_t r = 0; r < s; r++) {
            const int64_t k = forward ? r : n - 1 - r;
            const T factor = t->transpose ? a[k * lda + i] : a[i * lda + k];
            MX_IVDEP
            for (int64_t j = 0; j < others; j++)
                x[i * ldx + j] -= factor * x[k * ldx + j];
        }
        for (int64_t j = 0; j < others && !t->unit; j++)
            x[i * ldx + j] /= a[i * lda + i];
    }
}

/* One row: x op(A) = x.  With A transposed x[i] is a dot product with row i of A; else row i is subtracted from x. */
static void NAME(solve_row)(const triangle *t, const T *a, int64_t lda, int64_t n, T *x)
{
    const bool forward = t->lower == t->transpose;
    for (int64_t s = 0; s < n; s++) {
        const int64_t i = forward ? s : n - 1 - s, begin = forward ? 0 : i + 1, end = forward ? i : n;
        if (t->transpose) {
            T sum = 0;
            for (int64_t k = begin; k < end; k++)
                sum += x[k] * a[i * lda + k];
            x[i] -= sum;
        }
        if (!t->unit)
            x[i] /= a[i * lda + i];
        if (!t->transpose) {
            const int64_t first = forward ? i + 1 : 0, last = forward ? n : i;
            const T factor = x[i];
            MX_IVDEP
            for (int64_t k = first; k < last; k++)
                x[k] -= factor * a[i * lda + k];
        }
    }
}

/* op(A) X = X, or X op(A) = X when right; `others`: columns, or rows when right. */
static mx_code NAME(solve)(const triangle *t, const T *a, int64_t lda, int64_t n, T *x, int64_t ldx, int64_t others)
{
    if (mx_stop_wanted())
        return MX_OK;
    if (n <= SMALL && !t->right)
        return NAME(solve_left)(t, a, lda, n, x, ldx, others), MX_OK;
    if (n <= SMALL) {
        for (int64_t i = 0; i < others; i++)
            NAME(solve_row)(t, a, lda, n, x + i * ldx);
        return MX_OK;
    }
    const bool forward = (t->lower != t->transpose) != t->right;
    const int64_t h = n / 2, r = n - h, begin[2] = {0, h}, size[2] = {h, r};
    const int one = forward ? 0 : 1, two = 1 - one;
    const T *off = t->lower ? a + h * lda : a + h;
    T *first = x + begin[one] * (t->right ? 1 : ldx), *second = x + begin[two] * (t->right ? 1 : ldx);
    mx_code code = NAME(solve)(t, a + begin[one] * (lda + 1), lda, size[one], first, ldx, others);
    if (!code && t->right)
        code =
            NAME(multiply)(false, t->transpose, others, size[two], size[one], -1, first, ldx, off, lda, 1, second, ldx);
    else if (!code)
        code =
            NAME(multiply)(t->transpose, false, size[two], others, size[one], -1, off, lda, first, ldx, 1, second, ldx);
    return code ? code : NAME(solve)(t, a + begin[two] * (lda + 1), lda, size[two], second, ldx, others);
}

/* ---- Cholesky: the lower triangle of A becomes L ------------------------------------------------------------------ */

static mx_code NAME(cholesky)(T *a, int64_t lda, int64_t n)
{
    static const triangle by_transpose = {.lower = true, .transpose = true, .right = true};
    if (mx_stop_wanted())
        return MX_OK;
    if (n > SMALL) {
        const int64_t h = n / 2, r = n - h;
        T *below = a + h * lda, *rest = below + h;
        mx_code code = NAME(cholesky)(a, lda, h);
        if (!code)
            code = NAME(solve)(&by_transpose, a, lda, h, below, lda, r);
        if (!code)
            code = NAME(multiply)(false, true, r, r, h, -1, below, lda, below, lda, 1, rest, lda);
        return code ? code : NAME(cholesky)(rest, lda, r);
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            T sum = a[i * lda + j];
            for (int64_t k = 0; k < j; k++)
                sum -= a[i * lda + k] * a[j * lda + k];
            if (i == j && !(sum > 0))
                return MX_ERR_ARGUMENT;
            a[i * lda + j] = i == j ? (T)sqrt((double)sum) : sum / a[j * lda + j];
        }
    return MX_OK;
}

/* Copies a triangle of `from`, transposed if `turn`; zeros elsewhere. */
static void NAME(copy_triangle)(T *to, const T *from, int64_t n, bool lower, bool turn)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            const bool inside = lower ? j <= i : j >= i;
            to[turn ? j * n + i : i * n + j] = inside ? from[i * n + j] : 0;
        }
}

static mx_code NAME(potrf)(const linalg_job *job, int64_t which)
{
    const int64_t n = job->n;
    T *l = (T *)job->out[0] + which * n * n;
    NAME(copy_triangle)(l, (const T *)job->in[0] + which * n * n, n, job->triangle.lower, !job->triangle.lower);
    mx_code code = NAME(cholesky)(l, n, n);
    for (int64_t i = 0; i < n; i++) /* the products wrote there */
        memset(l + i * n + i + 1, 0, (size_t)(n - 1 - i) * sizeof(T));
    if (!code && !job->triangle.lower)
        NAME(turn_round)(l, n);
    return code;
}

/* (L L')^-1 = W' W with W = L^-1 */
static mx_code NAME(potri)(const linalg_job *job, int64_t which)
{
    static const triangle lower = {.lower = true};
    const int64_t n = job->n;
    T *out = (T *)job->out[0] + which * n * n, *l = mx_alloc(2 * (size_t)(n * n) * sizeof(T)),
      *w = l ? l + n * n : NULL;
    if (!l)
        return MX_ERR_MEMORY;
    NAME(copy_triangle)(l, (const T *)job->in[0] + which * n * n, n, job->triangle.lower, !job->triangle.lower);
    NAME(identity)(w, n);
    mx_code code = NAME(solve)(&lower, l, n, n, w, n, n);
    if (!code)
        code = NAME(multiply)(true, false, n, n, n, 1, w, n, w, n, 0, out, n);
    mx_free(l, 2 * (size_t)(n * n) * sizeof(T));
    return code;
}

/* ---- L U with row exchanges: P A = L U in place, pivot[i] is the row that row i was exchanged with ---------------- */

static void NAME(exchange)(T *a, int64_t lda, int64_t n, const int64_t *pivot, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        for (int64_t j = 0; pivot[i] != i && j < n; j++) {
            const T swap = a[i * lda + j];
            a[i * lda + j] = a[pivot[i] * lda + j];
            a[pivot[i] * lda + j] = swap;
        }
}

/* Columns [from, from + n) of a square matrix of `rows` rows; all rows above `from` are done. */
static void NAME(lu_columns)(T *a, int64_t lda, int64_t rows, int64_t from, int64_t n, int64_t *pivot)
{
    for (int64_t k = from; k < from + n; k++) {
        pivot[k] = k;
        if (mx_stop_wanted())
            continue;
        int64_t best = k;
        for (int64_t i = k + 1; i < rows; i++)
            best = fabs((double)a[i * lda + k]) > fabs((double)a[best * lda + k]) ? i : best;
        pivot[k] = best;
        NAME(exchange)(a + from, lda, n, pivot, k, k + 1);
        const T head = a[k * lda + k];
        for (int64_t i = k + 1; i < rows && head != 0; i++) {
            const T factor = a[i * lda + k] /= head;
            MX_IVDEP
            for (int64_t j = k + 1; j < from + n; j++)
                a[i * lda + j] -= factor * a[k * lda + j];
        }
    }
}

static mx_code NAME(lu)(T *a, int64_t lda, int64_t rows, int64_t from, int64_t n, int64_t *pivot)
{
    static const triangle unit = {.lower = true, .unit = true};
    if (n <= SMALL)
        return NAME(lu_columns)(a, lda, rows, from, n, pivot), MX_OK;
    const int64_t h = n / 2, next = from + h, right = n - h;
    T *above = a + from * lda + next;
    mx_code code = NAME(lu)(a, lda, rows, from, h, pivot);
    if (code)
        return code;
    NAME(exchange)(a + next, lda, right, pivot, from, next);
    code = NAME(solve)(&unit, a + from * (lda + 1), lda, h, above, lda, right);
    if (!code)
        code = NAME(multiply)(false, false, rows - next, right, h, -1, a + next * lda + from, lda, above, lda, 1,
                              a + next * (lda + 1), lda);
    if (!code)
        code = NAME(lu)(a, lda, rows, next, right, pivot);
    if (!code)
        NAME(exchange)(a + from, lda, h, pivot, next, from + n);
    return code;
}

/* A copy of matrix `which` as L U; scratch: n * n elements, then n pivots. */
static mx_code NAME(lu_copy)(const linalg_job *job, int64_t which, T *scratch, int64_t *pivot)
{
    const int64_t n = job->n;
    if (!n) /* empty matrices have no memory */
        return MX_OK;
    memcpy(scratch, (const T *)job->in[0] + which * n * n, (size_t)(n * n) * sizeof(T));
    return NAME(lu)(scratch, n, n, 0, n, pivot);
}

/* A X = X in place, X (n, columns), with A as factors. */
static mx_code NAME(solve_factors)(const T *a, const int64_t *pivot, int64_t n, T *x, int64_t columns)
{
    static const triangle unit = {.lower = true, .unit = true}, upper = {.lower = false};
    for (int64_t i = 0; i < n; i++)
        if (a[i * (n + 1)] == 0)
            return MX_ERR_ARGUMENT;
    NAME(exchange)(x, columns, columns, pivot, 0, n);
    const mx_code code = NAME(solve)(&unit, a, n, n, x, columns, columns);
    return code ? code : NAME(solve)(&upper, a, n, n, x, columns, columns);
}

/* A X = B; inverse: B is the identity. */
static mx_code NAME(solve_with)(const linalg_job *job, int64_t which)
{
    const int64_t n = job->n, columns = job->others;
    const size_t bytes = (size_t)(n * n) * sizeof(T) + (size_t)n * sizeof(int64_t) + 8;
    T *x = (T *)job->out[0] + which * n * columns;
    int64_t *pivot = mx_alloc(bytes);
    T *a = pivot ? (T *)(pivot + n) : NULL;
    if (!pivot)
        return MX_ERR_MEMORY;
    mx_code code = NAME(lu_copy)(job, which, a, pivot);
    if (!code && !job->in[1])
        NAME(identity)(x, n);
    else if (!code && n && columns)
        memcpy(x, (const T *)job->in[1] + which * n * columns, (size_t)(n * columns) * sizeof(T));
    code = code ? code : NAME(solve_factors)(a, pivot, n, x, columns);
    if (code == MX_ERR_ARGUMENT && job->zero_if_singular) {
        memset(x, 0, (size_t)(n * n) * sizeof(T));
        code = MX_OK;
    }
    mx_free(pivot, bytes);
    return code;
}

/* det: out[0]; slogdet: sign in out[0], logarithm in out[1] */
static mx_code NAME(determinant)(const linalg_job *job, int64_t which)
{
    const int64_t n = job->n;
    const size_t bytes = (size_t)(n * n) * sizeof(T) + (size_t)n * sizeof(int64_t) + 8;
    int64_t *pivot = mx_alloc(bytes);
    T *a = pivot ? (T *)(pivot + n) : NULL;
    if (!pivot)
        return MX_ERR_MEMORY;
    mx_code code = NAME(lu_copy)(job, which, a, pivot);
    double product = 1, sign = 1, sum = 0;
    for (int64_t i = 0; i < n && !code; i++) {
        const double d = (double)a[i * n + i] * (pivot[i] == i ? 1 : -1);
        product *= d;
        sign = d != d ? d : sign * ((d > 0) - (d < 0));
        sum += log(fabs(d));
    }
    ((T *)job->out[0])[which] = (T)(job->out[1] ? sign : product);
    if (job->out[1])
        ((T *)job->out[1])[which] = (T)sum;
    mx_free(pivot, bytes);
    return code;
}

/* ---- trmm, trsm, sumlogdiag ----------------------------------------------------------------------------------------- */

static mx_code NAME(trsm)(const linalg_job *job, int64_t which)
{
    const int64_t n = job->n, others = job->others;
    const T *b = (const T *)job->in[1] + which * n * others;
    T *x = (T *)job->out[0] + which * n * others;
    for (int64_t i = 0; i < n * others; i++)
        x[i] = (T)job->alpha * b[i];
    return NAME(solve)(&job->triangle, (const T *)job->in[0] + which * n * n, n, n, x, job->triangle.right ? n : others,
                       others);
}

static mx_code NAME(trmm)(const linalg_job *job, int64_t which)
{
    const int64_t n = job->n, others = job->others;
    const triangle *t = &job->triangle;
    const T *b = (const T *)job->in[1] + which * n * others;
    T *x = (T *)job->out[0] + which * n * others, *a = mx_alloc((size_t)(n * n) * sizeof(T));
    if (!a)
        return MX_ERR_MEMORY;
    NAME(copy_triangle)(a, (const T *)job->in[0] + which * n * n, n, t->lower, false);
    mx_code code = t->right
                       ? NAME(multiply)(false, t->transpose, others, n, n, job->alpha, b, n, a, n, 0, x, n)
                       : NAME(multiply)(t->transpose, false, n, others, n, job->alpha, a, n, b, others, 0, x, others);
    mx_free(a, (size_t)(n * n) * sizeof(T));
    return code;
}

static mx_code NAME(sumlogdiag)(const linalg_job *job, int64_t which)
{
    const T *a = (const T *)job->in[0] + which * job->n * job->n;
    double sum = 0;
    for (int64_t i = 0; i < job->n; i++)
        sum += log((double)a[i * (job->n + 1)]);
    ((T *)job->out[0])[which] = (T)sum;
    return MX_OK;
}
