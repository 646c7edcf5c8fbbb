/* x[keys] and x[keys] = value against a reference that walks over all positions, for many random keys; views, errors,
 * gradients.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "gluon.h"

#define MOST 4096 /* elements of a test array */

/* ---- random keys -------------------------------------------------------------------------------------------- */

static uint64_t seed = 1;
static int64_t draw(int64_t n) /* [0, n) */
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

static int64_t maybe_none(int64_t value) { return draw(3) ? value : MX_NONE_INT; }

static mx_array *random_index(int64_t size, const mx_dims *shape)
{
    mx_dims own = *shape;
    double value[64];
    int64_t n = 1;
    for (int i = 0; i < own.n; i++) {
        own.d[i] = draw(4) ? own.d[i] : 1; /* broadcast */
        n *= own.d[i];
    }
    for (int64_t i = 0; i < n; i++)
        value[i] = (double)(draw(2 * size) - size);
    static const mx_dtype types[] = {MX_INT64, MX_INT32, MX_FLOAT32};
    mx_array *index = mx_empty(own, types[draw(3)], mx_cpu(0));
    for (int64_t i = 0; i < n; i++)
        switch (mx_dtype_of(index)) {
        case MX_INT64: ((int64_t *)mx_array_data(index))[i] = (int64_t)value[i]; break;
        case MX_INT32: ((int32_t *)mx_array_data(index))[i] = (int32_t)value[i]; break;
        default: ((float *)mx_array_data(index))[i] = (float)value[i]; break;
        }
    return index;
}

static mx_key random_key(int64_t size, const mx_dims *index_shape, bool advanced)
{
    const int64_t kind = draw(advanced ? 3 : 2);
    if (kind == 0 && size > 0)
        return MX_AT(draw(2 * size) - size);
    if (kind == 2 && size > 0)
        return MX_PICK(random_index(size, index_shape));
    if (draw(3) == 0)
        return MX_ALL;
    const int64_t step = draw(3) ? 1 + draw(3) : -1 - draw(3);
    return MX_STEP(maybe_none(draw(2 * size + 3) - size - 1), maybe_none(draw(2 * size + 3) - size - 1),
                   maybe_none(step));
}

typedef struct trial {
    mx_dims shape;
    mx_key key[16];
    int count;
} trial;

static trial random_trial(bool advanced)
{
    trial t = {.count = 0};
    mx_dims index_shape = {.n = (int32_t)draw(3), .d = {1 + draw(3), 1 + draw(3)}};
    t.shape.n = (int32_t)draw(5);
    for (int i = 0; i < t.shape.n; i++)
        t.shape.d[i] = draw(12) ? 1 + draw(4) : 0;
    int64_t used = draw(t.shape.n + 1), gap = draw(used + 1);
    const bool ellipsis = draw(2);
    for (int64_t i = 0; i <= used; i++) {
        if (draw(6) == 0)
            t.key[t.count++] = MX_NEWAXIS;
        if (i == gap && ellipsis)
            t.key[t.count++] = MX_ELLIPSIS;
        if (i < used) {
            const int64_t axis = ellipsis && i >= gap ? t.shape.n - used + i : i;
            t.key[t.count++] = random_key(t.shape.d[axis], &index_shape, advanced);
        }
    }
    return t;
}

/* ---- the reference ------------------------------------------------------------------------------------------ */

/* The result's shape and, for each of its elements, the number of the element of x. */
typedef struct expected {
    int ndim;
    int64_t dim[32];
    int64_t count;
    int64_t element[MOST];
} expected;

typedef struct slot {
    int kind; /* of mx_key; slices and integers as lists of positions */
    int64_t n, list[16];
    const mx_key *key;
    int result; /* the result axis of a slice */
} slot;

static void list_slice(slot *s, const mx_key *key, int64_t size)
{
    const int64_t step = key->step == MX_NONE_INT ? 1 : key->step;
    int64_t begin = key->start == MX_NONE_INT ? (step > 0 ? 0 : size - 1)
                    : key->start < 0          ? key->start + size
                                              : key->start;
    int64_t end = key->stop == MX_NONE_INT ? (step > 0 ? size : -1) : key->stop < 0 ? key->stop + size : key->stop;
    if (key->stop != MX_NONE_INT && end < 0)
        end = -1;
    if (step < 0 && begin >= size)
        begin = size - 1;
    if (step > 0 && begin < 0)
        begin = 0;
    s->n = 0;
    for (int64_t i = begin; step > 0 ? i < end : i > end; i += step)
        if (i >= 0 && i < size)
            s->list[s->n++] = i;
}

static double index_value(const mx_array *index, const int64_t *at, int n_broadcast)
{
    const mx_dims shape = mx_shape(index);
    double values[64];
    int64_t offset = 0;
    mx_array_read_doubles(index, values, mx_size(index));
    for (int i = 0; i < shape.n; i++)
        offset = offset * shape.d[i] + (shape.d[i] == 1 ? 0 : at[n_broadcast - shape.n + i]);
    return values[offset];
}

static void expect(const trial *t, expected *e)
{
    static const mx_key all = MX_ALL;
    slot axis[8];
    int64_t broadcast[8] = {0}, dims[32];
    int n_axes = 0, n_dims = 0, n_broadcast = 0, first = -1, state = 0, arrays = 0, taken = 0;
    for (int i = 0; i < t->count; i++) {
        const mx_key *k = &t->key[i];
        taken += k->kind == MX_KEY_INT || k->kind == MX_KEY_SLICE || k->kind == MX_KEY_ARRAY;
        if (k->kind == MX_KEY_ARRAY) {
            const mx_dims shape = mx_shape(k->index);
            arrays++;
            const int longer = shape.n > n_broadcast ? shape.n : n_broadcast;
            int64_t joint[8];
            for (int d = 0; d < longer; d++) {
                const int a = d - (longer - n_broadcast), b = d - (longer - shape.n);
                joint[d] = a >= 0 && broadcast[a] != 1 ? broadcast[a] : b >= 0 ? shape.d[b] : 1;
            }
            memcpy(broadcast, joint, sizeof joint);
            n_broadcast = longer;
        }
    }
    bool seen = false;
    for (int i = 0; i <= t->count; i++) {
        const mx_key *k = i < t->count ? &t->key[i] : NULL;
        const bool advanced = k && (k->kind == MX_KEY_INT || k->kind == MX_KEY_ARRAY);
        if (advanced && state == 0)
            state = 1, first = n_dims;
        else if (k && !advanced && state == 1)
            state = 2;
        else if (advanced && state == 2)
            state = 3;
        if (!k || k->kind == MX_KEY_ELLIPSIS) {
            for (int r = 0; !seen && r < t->shape.n - taken; r++) {
                slot *s = &axis[n_axes];
                *s = (slot){.kind = MX_KEY_SLICE, .result = n_dims};
                list_slice(s, &all, t->shape.d[n_axes++]);
                dims[n_dims++] = s->n;
            }
            seen = true;
        } else if (k->kind == MX_KEY_NEWAXIS) {
            dims[n_dims++] = 1;
        } else {
            slot *s = &axis[n_axes];
            *s = (slot){.kind = k->kind, .key = k, .result = n_dims};
            if (k->kind == MX_KEY_SLICE) {
                list_slice(s, k, t->shape.d[n_axes]);
                dims[n_dims++] = s->n;
            }
            n_axes++;
        }
    }
    /* Inserts the axes of the index arrays. */
    const int at = arrays ? (state == 3 ? 0 : first) : 0, more = arrays ? n_broadcast : 0;
    e->ndim = 0, e->count = 1;
    for (int i = 0; i <= n_dims; i++) {
        for (int b = 0; i == at && b < more; b++)
            e->dim[e->ndim++] = broadcast[b];
        if (i < n_dims)
            e->dim[e->ndim++] = dims[i];
    }
    for (int i = 0; i < e->ndim; i++)
        e->count *= e->dim[i];
    for (int64_t p = 0; p < e->count && p < MOST; p++) {
        int64_t position[32], rest = p, element = 0;
        for (int i = e->ndim - 1; i >= 0; i--) {
            position[i] = rest % e->dim[i];
            rest /= e->dim[i];
        }
        for (int a = 0; a < n_axes; a++) {
            int64_t index;
            const slot *s = &axis[a];
            if (s->kind == MX_KEY_SLICE)
                index = s->list[position[s->result + (s->result >= at ? more : 0)]];
            else
                index = s->kind == MX_KEY_INT ? s->key->start
                                              : (int64_t)index_value(s->key->index, position + at, n_broadcast);
            element = element * t->shape.d[a] + (index < 0 ? index + t->shape.d[a] : index);
        }
        e->element[p] = element;
    }
    if (!e->ndim && t->shape.n)
        e->dim[e->ndim++] = 1;
}

/* ---- reading and writing ------------------------------------------------------------------------------------- */

static mx_array *counting(const mx_dims *shape, mx_dtype dtype)
{
    mx_array *x = mx_empty(*shape, MX_FLOAT64, mx_cpu(0)), *y = mx_empty(*shape, dtype, mx_cpu(0));
    for (int64_t i = 0; i < mx_size(x); i++)
        ((double *)mx_array_data(x))[i] = (double)i;
    assert_int_equal(mx_array_set(y, x), MX_OK);
    return y;
}

static void check_shape(const mx_array *x, const expected *e)
{
    assert_int_equal(mx_ndim(x), e->ndim);
    for (int i = 0; i < e->ndim; i++)
        assert_int_equal(mx_dim(x, i), e->dim[i]);
}

static void check_reading(const trial *t, const expected *e)
{
    double values[MOST];
    mx_array *x = counting(&t->shape, draw(2) ? MX_FLOAT32 : MX_INT32);
    mx_array *y = mx_index_keys(x, t->key, t->count);
    if (!y)
        fail_msg("%s", mx_error_message());
    check_shape(y, e);
    mx_array_read_doubles(y, values, mx_size(y));
    for (int64_t i = 0; i < e->count; i++)
        assert_int_equal((int64_t)values[i], e->element[i]);
}

/* Writes a value that broadcasts to the result; where several elements are written to one place the last one stays. */
static void check_writing(const trial *t, const expected *e)
{
    double wanted[MOST], got[MOST];
    const mx_dtype type = draw(2) ? MX_FLOAT32 : MX_INT64;
    mx_array *x = counting(&t->shape, type);
    mx_dims shape = {.n = (int32_t)draw(e->ndim + 1)};
    for (int i = 0; i < shape.n; i++)
        shape.d[i] = draw(3) ? e->dim[e->ndim - shape.n + i] : 1;
    mx_array *value = counting(&shape, MX_FLOAT32);
    assert_int_equal(mx_array_read_doubles(x, wanted, mx_size(x)), MX_OK);
    for (int64_t p = 0; p < e->count; p++) {
        int64_t rest = p, offset = 0, step = 1;
        for (int i = e->ndim - 1, k = shape.n - 1; i >= 0; i--, k--) {
            const int64_t at = rest % e->dim[i];
            rest /= e->dim[i];
            offset += k >= 0 && shape.d[k] != 1 ? at * step : 0;
            step *= k >= 0 ? shape.d[k] : 1;
        }
        wanted[e->element[p]] = (double)offset;
    }
    if (mx_assign_keys(x, t->key, t->count, value))
        fail_msg("%s", mx_error_message());
    mx_array_read_doubles(x, got, mx_size(x));
    for (int64_t i = 0; i < mx_size(x); i++)
        assert_true(got[i] == wanted[i]);
}

static void run_trials(int count, bool advanced)
{
    for (int i = 0; i < count; i++) {
        MX_SCOPE;
        static expected e;
        trial t = random_trial(advanced);
        expect(&t, &e);
        if (e.ndim > MX_MAX_NDIM || e.count > MOST)
            continue;
        check_reading(&t, &e);
        check_writing(&t, &e);
        assert_false(mx_has_error());
    }
}

static void test_basic(void **state)
{
    (void)state;
    run_trials(4000, false);
}
static void test_advanced(void **state)
{
    (void)state;
    run_trials(6000, true);
}

/* ---- views, conventions, errors -------------------------------------------------------------------------------- */

static void test_views(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_dims shape = MX_DIMS(3, 4);
    mx_array *x = counting(&shape, MX_FLOAT32), *row = mx_index(x, MX_AT(-1)), *column = mx_index(x, MX_ALL, MX_AT(1));
    mx_array_fill(row, 7);
    mx_array_fill(column, 9);
    assert_true(mx_item(mx_index(x, MX_AT(2), MX_AT(3))) == 7); /* a row is a view */
    assert_true(mx_item(mx_index(x, MX_AT(0), MX_AT(1))) == 1); /* a column is a copy */
    assert_ptr_equal(mx_index_keys(x, NULL, 0), x);
    assert_ptr_equal(mx_index(x, MX_ALL), x);
    assert_int_equal(mx_ndim(mx_index(x, MX_AT(0), MX_AT(0))), 1);
    mx_dims three = MX_DIMS(3);
    mx_array *vector = counting(&three, MX_FLOAT32);
    assert_int_equal(mx_dim(mx_index(vector, MX_AT(1)), 0), 1);
    /* Overlapping source and target. */
    mx_assign(vector, mx_index(vector, MX_RANGE(0, 2)), MX_RANGE(1, 3));
    assert_true(mx_item(mx_index(vector, MX_AT(2))) == 1);
    assert_false(mx_has_error());
}

static void expect_error(mx_code wanted)
{
    if (mx_error_code() != wanted)
        fail_msg("wanted %s, got %s: %s", mx_error_name(wanted), mx_error_name(mx_error_code()), mx_error_message());
    mx_error_clear();
}

static void test_errors(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_dims shape = MX_DIMS(3, 4);
    mx_array *x = counting(&shape, MX_FLOAT32), *seven = mx_array_scalar(7),
             *far = mx_array_from(MX_DIMS(1), MX_INT64, &(int64_t){3});
    assert_null(mx_index(x, MX_AT(3)));
    expect_error(MX_ERR_INDEX);
    assert_null(mx_index(x, MX_AT(-4)));
    expect_error(MX_ERR_INDEX);
    assert_null(mx_index(x, MX_AT(0), MX_AT(0), MX_AT(0)));
    expect_error(MX_ERR_INDEX);
    assert_null(mx_index(x, MX_ELLIPSIS, MX_ELLIPSIS));
    expect_error(MX_ERR_INDEX);
    assert_null(mx_index(x, MX_STEP(0, 2, 0)));
    expect_error(MX_ERR_INDEX);
    assert_null(mx_index(x, MX_PICK(far)));
    expect_error(MX_ERR_INDEX);
    assert_null(mx_index(x, MX_PICK(far), MX_AT(0)));
    expect_error(MX_ERR_INDEX);
    assert_int_not_equal(mx_assign(x, seven, MX_PICK(far)), MX_OK);
    expect_error(MX_ERR_INDEX);
    assert_null(mx_index(x, MX_PICK(NULL)));
    expect_error(MX_ERR_ARGUMENT);
    assert_null(mx_index(NULL, MX_AT(0)));
    expect_error(MX_ERR_ARGUMENT);
    assert_int_not_equal(mx_assign(x, NULL, MX_AT(0)), MX_OK);
    expect_error(MX_ERR_ARGUMENT);
    mx_dims two = MX_DIMS(2);
    assert_int_not_equal(mx_assign(x, counting(&two, MX_FLOAT32), MX_AT(0)), MX_OK);
    expect_error(MX_ERR_SHAPE);
    assert_null(mx_index(x, MX_PICK(mx_zeros(.shape = MX_DIMS(4), .dtype = MX_BOOL)))); /* a mask of another size */
    expect_error(MX_ERR_INDEX);
    mx_attach_grad(x, MX_GRAD_WRITE);
    mx_record()
        mx_assign(x, seven, MX_AT(0));
    expect_error(MX_ERR_AUTOGRAD);
}

/* The gradient of sum(x[keys] * weight) is the weight, accumulated where the elements came from. */
static void check_gradient(const trial *t, const expected *e)
{
    double got[MOST], wanted[MOST] = {0};
    mx_array *x = counting(&t->shape, MX_FLOAT32), *y = NULL;
    mx_attach_grad(x, MX_GRAD_WRITE);
    mx_record()
        y = mx_index_keys(x, t->key, t->count);
    if (!y)
        fail_msg("%s", mx_error_message());
    mx_dims shape = mx_shape(y);
    if (mx_backward(y, .head_grad = counting(&shape, MX_FLOAT32)))
        fail_msg("%s", mx_error_message());
    for (int64_t i = 0; i < e->count; i++)
        wanted[e->element[i]] += (double)i;
    mx_array_read_doubles(mx_gradient(x), got, mx_size(x));
    for (int64_t i = 0; i < mx_size(x); i++)
        assert_true(got[i] == wanted[i]);
}

static void test_gradients(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        MX_SCOPE;
        static expected e;
        trial t = random_trial(true);
        expect(&t, &e);
        if (e.ndim <= MX_MAX_NDIM && e.count <= MOST && e.count > 0)
            check_gradient(&t, &e);
    }
}

/* A recorded value that is written into a new array gets its gradient. */
static void test_gradient_of_value(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_dims shape = MX_DIMS(3, 4), two = MX_DIMS(2);
    mx_array *value = counting(&two, MX_FLOAT32), *first = counting(&shape, MX_FLOAT32),
             *second = counting(&shape, MX_FLOAT32);
    mx_array *index = mx_array_from(MX_DIMS(2), MX_INT64, (int64_t[]){0, 2});
    mx_attach_grad(value, MX_GRAD_WRITE);
    mx_record() {
        mx_assign(first, value, MX_RANGE(0, 2), MX_RANGE(0, 2));
        mx_assign(second, value, MX_PICK(index), MX_AT(1));
    }
    assert_int_equal(mx_backward_all(MX_ARRAYS(first, second), NULL), MX_OK);
    double got[2];
    mx_array_read_doubles(mx_gradient(value), got, 2);
    assert_true(got[0] == 3 && got[1] == 3); /* two rows of the slice, one place each of the other */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_basic),     cmocka_unit_test(test_advanced),  cmocka_unit_test(test_views),
        cmocka_unit_test(test_errors),    cmocka_unit_test(test_gradients), cmocka_unit_test(test_gradient_of_value),
    };
    return cmocka_run_group_tests_name("indexing", tests, NULL, NULL);
}
