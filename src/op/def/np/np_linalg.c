/* NumPy's linear algebra, of single matrices and of stacks of them.  SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/def/np/svd.h"

/* The operator of the entry on a float array; a scalar per matrix of a single one is 0-d. */
static mx_code of_matrix(const mx_expand *call)
{
    mx_array *x = mx_expand_by_rules(call, call->in[0]), *out[MX_MAX_OUTPUTS] = {NULL};
    const int n = mx_op_count_visible(call->op, call->attrs);
    if (!x)
        return mx_error_code();
    if (x->ndim >= 0 && x->ndim < 2)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "wanted a matrix or a stack of them, got %d axes", x->ndim);
    if (mx_expand_same(call, mx_expansion_op(call->how, 0), 1, &x, MX_MAX_OUTPUTS, out))
        return mx_error_code();
    const mx_shape_t nothing = {.ndim = 0};
    for (int i = 0; i < n; i++) {
        const bool number = x->ndim == 2 && out[i]->ndim == 1 && out[i]->size == 1 && call->how->name[1];
        call->out[i] = number ? mx_g_reshape(out[i], &nothing) : out[i];
        if (!call->out[i])
            return mx_error_code();
    }
    return MX_OK;
}

#define UPLO_ATTRS(X) X(ENUM, UPLO, "L", "L|U", "which triangle of the matrix is read")
MX_ATTRS(np_eigh, UPLO_ATTRS)
/* syevd gives rows of eigenvectors; NumPy has columns. */
static mx_code eigh(const mx_expand *call)
{
    mx_array *x = mx_expand_by_rules(call, call->in[0]), *out[2] = {NULL};
    if (x && ((const mx_np_eigh_attrs *)call->attrs)->UPLO == 1)
        x = turned(x);
    if (!x || mx_invoke(MX_OP("_linalg_syevd"), NULL, 1, &x, 2, out))
        return mx_error_code();
    call->out[0] = out[1];
    if (mx_op_count_visible(call->op, call->attrs) == 2)
        call->out[1] = turned(out[0]);
    return call->out[0] ? MX_OK : mx_error_code();
}

/* ---- equations --------------------------------------------------------------------------------------------------- */

/* Leading axes of both matrices broadcast to common ones. */
static mx_code broadcast_stacks(const mx_expand *call, mx_array **x)
{
    mx_shape_t shape[2] = {mx_array_shape(x[0]), mx_array_shape(x[1])}, lead;
    shape[0].ndim -= 2, shape[1].ndim -= 2;
    if (!mx_shape_broadcast(&shape[0], &shape[1], &lead))
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the leading axes of a and b do not broadcast");
    for (int i = 0; i < 2; i++) {
        mx_shape_t whole = lead;
        if (mx_shape_equal(&shape[i], &lead))
            continue;
        for (int k = 2; k; k--)
            whole.dim[whole.ndim++] = x[i]->shape[x[i]->ndim - k];
        if (!(x[i] = mx_g_broadcast_to(x[i], &whole)))
            return mx_error_code();
    }
    return MX_OK;
}

/* b holds vectors if it has one axis, or one less than a and no matrices that fit. */
static mx_code solve(const mx_expand *call)
{
    mx_array *x[2];
    if (!matrices(call, 0) || mx_expand_promote(call, x))
        return mx_error_code();
    const int axes = x[0]->ndim, given = x[1]->ndim;
    if (given < 1)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "b has no axes, wanted vectors or matrices");
    const bool vectors = given == 1 || (given == axes - 1 && x[1]->shape[given - 2] != x[0]->shape[axes - 2]);
    if (vectors)
        x[1] = mx_expand1("np.expand_dims", x[1], "axis=-1");
    if (!x[1] || broadcast_stacks(call, x))
        return mx_error_code();
    mx_array *y = mx_g2("_npi_solve", x[0], x[1]);
    return mx_expand_give(call, vectors && y ? mx_expand1("np.squeeze", y, "axis=-1") : y);
}

static int64_t product(const int64_t *sizes, int n)
{
    int64_t all = 1;
    for (int i = 0; i < n; i++)
        all *= sizes[i];
    return all;
}

#define TENSORINV_ATTRS(X) X(INT, ind, "2", "1..", "how many axes are the rows")
MX_ATTRS(np_tensorinv, TENSORINV_ATTRS)
static mx_code tensorinv(const mx_expand *call)
{
    const int64_t given = ((const mx_np_tensorinv_attrs *)call->attrs)->ind;
    const int ind = given > MX_MAX_NDIM ? MX_MAX_NDIM + 1 : (int)given;
    mx_array *x = matrices(call, 0);
    if (!x)
        return mx_error_code();
    const int64_t rows = ind <= x->ndim ? product(x->shape, ind) : -1,
                  columns = ind <= x->ndim ? product(x->shape + ind, x->ndim - ind) : 0;
    if (rows != columns)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the first %d axes must have as many places as the others", ind);
    mx_shape_t shape = {.ndim = 0};
    for (int i = 0; i < x->ndim; i++)
        shape.dim[shape.ndim++] = x->shape[(i + ind) % x->ndim];
    mx_array *square = mx_g_reshape(x, &(mx_shape_t){.ndim = 2, .dim = {rows, rows}});
    mx_array *inverse = mx_g1("_linalg_inverse", square);
    return mx_expand_give(call, inverse ? mx_g_reshape(inverse, &shape) : NULL);
}

#define TENSORSOLVE_ATTRS(X) X(DIMS, axes, "None", "", "axes of a that are moved to its end first")
MX_ATTRS(np_tensorsolve, TENSORSOLVE_ATTRS)
static mx_array *moved_last(mx_array *x, const mx_dims *axes)
{
    char text[MX_SHAPE_TEXT];
    mx_dims to = {.n = axes->n};
    for (int i = 0; i < axes->n; i++)
        to.d[i] = i - axes->n;
    char places[MX_SHAPE_TEXT];
    return mx_expand1("np.moveaxis", x, "source=%s, destination=%s", mx_dims_text(axes, text),
                      mx_dims_text(&to, places));
}
static mx_code tensorsolve(const mx_expand *call)
{
    const mx_dims *axes = &((const mx_np_tensorsolve_attrs *)call->attrs)->axes;
    mx_array *x[2];
    if (mx_expand_promote(call, x))
        return mx_error_code();
    if (axes->n > 0 && !(x[0] = moved_last(x[0], axes)))
        return mx_error_code();
    const int left = x[1]->ndim;
    mx_shape_t shape = {.ndim = 0};
    for (int i = left < x[0]->ndim ? left : 0; i < x[0]->ndim; i++)
        shape.dim[shape.ndim++] = x[0]->shape[i];
    const int64_t unknowns = mx_shape_size(&shape);
    if (x[0]->size != unknowns * unknowns || x[1]->size != unknowns)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "a has %lld elements, b %lld: wanted the square of %lld and %lld",
                          (long long)x[0]->size, (long long)x[1]->size, (long long)unknowns, (long long)unknowns);
    mx_array *a = mx_g_reshape(x[0], &(mx_shape_t){.ndim = 2, .dim = {unknowns, unknowns}}),
             *b = mx_g_reshape(x[1], &(mx_shape_t){.ndim = 2, .dim = {unknowns, 1}});
    mx_array *y = a && b ? mx_g2("_npi_solve", a, b) : NULL;
    return mx_expand_give(call, y ? mx_g_reshape(y, &shape) : NULL);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

#define POWER_ATTRS(X) X(INT, n, REQUIRED, "", "the exponent; negative: of the inverse")
MX_ATTRS(np_matrix_power, POWER_ATTRS)
static mx_code matrix_power(const mx_expand *call)
{
    int64_t n = ((const mx_np_matrix_power_attrs *)call->attrs)->n;
    mx_array *x = matrices(call, 0), *y = NULL;
    if (!x)
        return mx_error_code();
    const int64_t rows = x->shape[x->ndim - 2];
    if (rows < 0 || rows != x->shape[x->ndim - 1])
        return mx_op_fail(call->op, MX_ERR_SHAPE, "wanted square matrices");
    if (n < 0)
        x = mx_g1("np.linalg.inv", x), n = -n;
    if (x && !n) {
        const mx_shape_t shape = mx_array_shape(x);
        char ctx[32];
        y = mx_expand_text(MX_OP("_eye"), 0, NULL, "N=%lld, dtype=%s, ctx=%s", (long long)rows,
                           mx_dtype_name((mx_dtype)x->dtype), mx_context_text(x->context, ctx));
        return mx_expand_give(call, y ? mx_g_broadcast_to(y, &shape) : NULL);
    }
    for (; n && x; n /= 2) {
        if (n % 2)
            y = y ? mx_g2("np.matmul", y, x) : x;
        x = n > 1 ? mx_g2("np.matmul", x, x) : x;
    }
    return mx_expand_give(call, x ? y : NULL);
}

#define MOST_FACTORS 64

/* The order with the fewest multiplications: best[i][k] splits the factors i ... k. */
typedef struct chain {
    mx_array *x[MOST_FACTORS];
    int best[MOST_FACTORS][MOST_FACTORS];
} chain;
static void find_order(chain *c, int n)
{
    double cost[MOST_FACTORS][MOST_FACTORS] = {{0}};
    for (int width = 1; width < n; width++)
        for (int i = 0; i + width < n; i++) {
            const int k = i + width;
            cost[i][k] = -1;
            for (int split = i; split < k; split++) {
                const double work =
                    cost[i][split] + cost[split + 1][k] +
                    (double)c->x[i]->shape[0] * (double)c->x[split]->shape[1] * (double)c->x[k]->shape[1];
                if (cost[i][k] < 0 || work < cost[i][k])
                    cost[i][k] = work, c->best[i][k] = split;
            }
        }
}
static mx_array *multiplied(const chain *c, int i, int k)
{
    if (i == k)
        return c->x[i];
    mx_array *left = multiplied(c, i, c->best[i][k]), *right = multiplied(c, c->best[i][k] + 1, k);
    return left && right ? mx_g2("np.dot", left, right) : NULL;
}
static mx_code multi_dot(const mx_expand *call)
{
    const int n = call->n_in;
    chain c;
    if (n == 2)
        return mx_expand_give(call, mx_g2("np.dot", call->in[0], call->in[1]));
    if (n < 2 || n > MOST_FACTORS)
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "wanted 2 to %d arrays, got %d", MOST_FACTORS, n);
    if (mx_expand_promote(call, c.x))
        return mx_error_code();
    const bool row = c.x[0]->ndim == 1, column = c.x[n - 1]->ndim == 1; /* vectors at the ends */
    if (row)
        c.x[0] = mx_expand1("np.expand_dims", c.x[0], "axis=0");
    if (column)
        c.x[n - 1] = mx_expand1("np.expand_dims", c.x[n - 1], "axis=1");
    for (int i = 0; i < n; i++)
        if (!c.x[i] || c.x[i]->ndim != 2)
            return c.x[i] ? mx_op_fail(call->op, MX_ERR_SHAPE, "array %d has %d axes, wanted a matrix", i, c.x[i]->ndim)
                          : mx_error_code();
    find_order(&c, n);
    mx_array *y = multiplied(&c, 0, n - 1);
    if (!y || (!row && !column))
        return mx_expand_give(call, y);
    mx_shape_t shape = {.ndim = !row || !column, .dim = {row ? y->shape[1] : y->shape[0]}};
    return mx_expand_give(call, mx_g_reshape(y, &shape));
}

// clang-format off
#define MATRIX(id, function, operator_, number, n, schema_, doc_) \
    {.name = "np.linalg." #id, .c_name = "np_linalg_" #id, .doc = doc_, .inputs = "a", .flags = MX_OP_EXPANDS, .n_out = n, \
     .schema = schema_, .user = &(mx_expansion){function, {operator_, number, NULL}, MX_TO_FLOAT, {NULL, NULL, NULL}}},
#define EQUATION(id, function, schema_, doc_) \
    {.name = "np.linalg." #id, .c_name = "np_linalg_" #id, .doc = doc_, .inputs = "a b", .flags = MX_OP_EXPANDS, .schema = schema_, \
     .user = &(mx_expansion){function, {NULL, NULL, NULL}, MX_TO_FLOAT, {NULL, NULL, NULL}}},
mx_op mx_family_np_linalg[] = {
    MATRIX(cholesky, of_matrix, "_linalg_potrf", NULL, 1, NULL, "the lower triangular factor of a positive definite matrix")
    MATRIX(inv, of_matrix, "_linalg_inverse", NULL, 1, NULL, "the inverse")
    MATRIX(det, of_matrix, "_linalg_det", "number", 1, NULL, "the determinant")
    MATRIX(slogdet, of_matrix, "_linalg_slogdet", "number", 2, NULL, "the sign of the determinant and the logarithm of its size")
    MATRIX(eigh, eigh, NULL, NULL, 2, &np_eigh_schema, "eigenvalues, and eigenvectors as columns, of a symmetric matrix")
    MATRIX(eigvalsh, eigh, NULL, NULL, 1, &np_eigh_schema, "eigenvalues of a symmetric matrix")
    MATRIX(eig, of_matrix, "_npi_eig", NULL, 2, NULL, "real eigenvalues, ascending, and eigenvectors as columns; no gradient")
    MATRIX(eigvals, of_matrix, "_npi_eigvals", NULL, 1, NULL, "real eigenvalues, ascending; no gradient")
    MATRIX(tensorinv, tensorinv, NULL, NULL, 1, &np_tensorinv_schema, "the inverse of a as a linear map from its last axes to its first ones")
    {.name = "np.linalg.matrix_power", .c_name = "np_linalg_matrix_power", .doc = "a matrix multiplied by itself", .inputs = "a", .flags = MX_OP_EXPANDS,
     .schema = &np_matrix_power_schema, .user = &(mx_expansion){matrix_power, {NULL, NULL, NULL}, 0, {NULL, NULL, NULL}}},
    EQUATION(solve, solve, NULL, "x such that a @ x is b")
    EQUATION(tensorsolve, tensorsolve, &np_tensorsolve_schema, "x such that tensordot(a, x) over the axes of x is b")
    {.name = "np.linalg.multi_dot", .c_name = "np_linalg_multi_dot", .doc = "the product of matrices in the order with the fewest multiplications",
     .inputs = "*arrays", .flags = MX_OP_EXPANDS | MX_OP_LIST, .user = &(mx_expansion){multi_dot, {NULL, NULL, NULL}, 0, {NULL, NULL, NULL}}},
    {0},
};
