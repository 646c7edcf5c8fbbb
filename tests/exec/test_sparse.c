/* Sparse arrays in C: parts and their checks, conversions, products, gradients, lazy updates, files, failing memory.
 *
 * Everything is compared with the same computation on dense arrays.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "gluon.h"

#define HERE ((mx_context){0})
#define LENGTH(list) ((int64_t)(sizeof(list) / sizeof *(list)))
#define FLOATS(...) \
    mx_array_from(MX_DIMS(LENGTH(((float[]){__VA_ARGS__}))), MX_FLOAT32, (float[]){__VA_ARGS__})
#define INTS(...) \
    mx_array_from(MX_DIMS(LENGTH(((int64_t[]){__VA_ARGS__}))), MX_INT64, (int64_t[]){__VA_ARGS__})

static void assert_error(mx_code code, const char *part)
{
    if (mx_error_code() != code || !strstr(mx_error_message(), part))
        fail_msg("'%s' (%d) is not about '%s' (%d)", mx_error_message(), mx_error_code(), part, code);
    mx_error_clear();
}

static void assert_fine(void)
{
    if (mx_error_code())
        fail_msg("%s", mx_error_message());
}

/* x, sparse or dense, has these elements */
static void assert_elements(mx_array *x, mx_stype stype, int64_t count, const double *wanted)
{
    double found[64];
    assert_fine();
    assert_int_equal(mx_stype_of(x), stype);
    mx_array *dense = mx_tostype(x, MX_STYPE_DEFAULT);
    assert_int_equal(mx_size(dense), count);
    assert_int_equal(mx_array_read_doubles(dense, found, count), MX_OK);
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(found[i] - wanted[i]) <= 1e-5))
            fail_msg("element %lld is %g, wanted %g", (long long)i, found[i], wanted[i]);
}
#define EXPECT(x, stype, ...) \
    assert_elements(x, stype, LENGTH(((double[]){__VA_ARGS__})), (double[]){__VA_ARGS__})

/* [[0 0] [1 2] [0 0] [3 4]] */
static mx_array *two_rows(void)
{
    return mx_row_sparse(MX_DIMS(4, 2), mx_reshape(FLOATS(1, 2, 3, 4), .shape = MX_DIMS(2, 2)), INTS(1, 3));
}

/* [[0 5 0] [6 0 7]] */
static mx_array *small_csr(void) { return mx_csr(MX_DIMS(2, 3), FLOATS(5, 6, 7), INTS(1, 0, 2), INTS(0, 1, 3)); }

static void parts(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *rows = two_rows(), *csr = small_csr();
    EXPECT(rows, MX_ROW_SPARSE, 0, 0, 1, 2, 0, 0, 3, 4);
    EXPECT(csr, MX_CSR, 0, 5, 0, 6, 0, 7);
    assert_int_equal(mx_sparse_count(rows), 2);
    assert_int_equal(mx_dim(rows, 0), 4);
    assert_int_equal(mx_size(csr), 6);
    EXPECT(mx_sparse_indptr(csr), MX_STYPE_DEFAULT, 0, 1, 3);
    assert_string_equal(mx_array_text(rows), "<RowSparseNDArray 4x2 @cpu(0)>");
    assert_null(mx_sparse_indptr(rows));
    assert_error(MX_ERR_ARGUMENT, "csr");
    assert_null(mx_sparse_data(FLOATS(1)));
    assert_error(MX_ERR_ARGUMENT, "sparse array");
    assert_int_equal(mx_stype_from_name("csr"), MX_CSR);
    assert_int_equal((int)mx_stype_from_name("coo"), -1);
    assert_error(MX_ERR_ARGUMENT, "coo");
    EXPECT(mx_csr_triples((mx_dims){.n = -1}, FLOATS(1, 2, 4), INTS(1, 0, 1), INTS(1, 0, 1)), MX_CSR, 2, 0, 0, 5);
    EXPECT(mx_csr_rows(csr, -1, 2), MX_CSR, 6, 0, 7);
    EXPECT(mx_tostype(mx_tostype(rows, MX_CSR), MX_ROW_SPARSE), MX_ROW_SPARSE, 0, 0, 1, 2, 0, 0, 3, 4);
    EXPECT(mx_sparse_zeros(MX_CSR, MX_DIMS(1, 2), MX_FLOAT32, HERE), MX_CSR, 0, 0);
}

static void wrong_parts(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *data = mx_reshape(FLOATS(1, 2, 3, 4), .shape = MX_DIMS(2, 2));
    assert_null(mx_row_sparse(MX_DIMS(4, 2), data, INTS(3, 1)));
    assert_error(MX_ERR_ARGUMENT, "ascend");
    assert_null(mx_row_sparse(MX_DIMS(4, 2), data, INTS(1, 4)));
    assert_error(MX_ERR_INDEX, "row 4");
    assert_null(mx_row_sparse(MX_DIMS(4, 2), data, INTS(1)));
    assert_error(MX_ERR_SHAPE, "do not make");
    assert_null(mx_row_sparse(MX_DIMS(4, 3), data, INTS(1, 2)));
    assert_error(MX_ERR_SHAPE, "do not make");
    assert_null(mx_row_sparse(MX_DIMS(4, 2), data, FLOATS(1, 2)));
    assert_error(MX_ERR_DTYPE, "integers");
    assert_null(mx_row_sparse(MX_DIMS(4, 2), two_rows(), INTS(1, 2)));
    assert_error(MX_ERR_ARGUMENT, "data");
    assert_null(mx_csr(MX_DIMS(2, 3), FLOATS(5, 6, 7), INTS(1, 2, 0), INTS(0, 1, 3)));
    assert_error(MX_ERR_ARGUMENT, "ascend");
    assert_null(mx_csr(MX_DIMS(2, 3), FLOATS(5, 6, 7), INTS(1, 0, 3), INTS(0, 1, 3)));
    assert_error(MX_ERR_INDEX, "column 3");
    assert_null(mx_csr(MX_DIMS(2, 3), FLOATS(5, 6, 7), INTS(1, 0, 2), INTS(0, 4, 3)));
    assert_error(MX_ERR_ARGUMENT, "descend");
    assert_null(mx_csr(MX_DIMS(2, 3), FLOATS(5, 6, 7), INTS(1, 0, 2), INTS(1, 1, 3)));
    assert_error(MX_ERR_ARGUMENT, "begin with 0");
    assert_null(mx_csr(MX_DIMS(2, 3, 1), FLOATS(5, 6, 7), INTS(1, 0, 2), INTS(0, 1, 3)));
    assert_error(MX_ERR_SHAPE, "csr");
    assert_null(mx_csr(MX_DIMS(2, 3), NULL, INTS(1), INTS(0, 1, 1)));
    assert_error(MX_ERR_ARGUMENT, "NULL");
    assert_null(mx_csr_triples(MX_DIMS(1, 1), FLOATS(1), INTS(0), INTS(1)));
    assert_error(MX_ERR_INDEX, "outside");
    assert_null(mx_csr_rows(small_csr(), 1, 3));
    assert_error(MX_ERR_INDEX, "rows");
    assert_null(mx_tostype(FLOATS(1), MX_CSR));
    assert_error(MX_ERR_SHAPE, "two axes");
    mx_array *rows = two_rows();
    assert_int_not_equal(mx_sparse_set(rows, data, INTS(2, 1), NULL), MX_OK);
    assert_error(MX_ERR_ARGUMENT, "ascend");
    EXPECT(rows, MX_ROW_SPARSE, 0, 0, 1, 2, 0, 0, 3, 4);
}

/* Operators without a form for sparse arrays compute with dense copies, also when they are recorded. */
static void dense_copies(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = two_rows(), *y = NULL, *out = mx_sparse_zeros(MX_ROW_SPARSE, MX_DIMS(2), MX_FLOAT32, mx_cpu(0));
    EXPECT(mx_exp(x), MX_STYPE_DEFAULT, 1, 1, exp(1), exp(2), 1, 1, exp(3), exp(4));
    EXPECT(mx_dot(x, FLOATS(1, 2)), MX_STYPE_DEFAULT, 0, 5, 0, 11);
    EXPECT(mx_greater_scalar(x, .scalar = 1), MX_ROW_SPARSE, 0, 0, 0, 1, 0, 0, 1, 1);
    EXPECT(mx_lesser_scalar(x, .scalar = 1), MX_STYPE_DEFAULT, 1, 1, 0, 0, 1, 1, 0, 0);
    assert_ptr_equal(mx_exp(FLOATS(0, 1), .out = out), out);
    EXPECT(out, MX_ROW_SPARSE, 1, exp(1));
    assert_int_equal(mx_attach_grad(x, MX_GRAD_WRITE), MX_OK);
    mx_record()
        y = mx_square(x);
    assert_int_equal(mx_backward(y), MX_OK);
    EXPECT(y, MX_ROW_SPARSE, 0, 0, 1, 4, 0, 0, 9, 16);
    EXPECT(mx_gradient(x), MX_ROW_SPARSE, 0, 0, 2, 4, 0, 0, 6, 8);
    mx_record()
        y = mx_sum(mx_exp(x));
    assert_int_equal(mx_backward(y), MX_OK);
    EXPECT(mx_gradient(x), MX_ROW_SPARSE, 1, 1, exp(1), exp(2), 1, 1, exp(3), exp(4));
    mx_record()
        y = mx_mul_scalar(x, .scalar = 3);
    assert_int_equal(mx_backward(y, .head_grad = two_rows()), MX_OK);
    EXPECT(mx_gradient(x), MX_ROW_SPARSE, 0, 0, 3, 6, 0, 0, 9, 12);
}

/* Functions that need dense elements fail with an error that says what to do. */
static void refusals(void **state)
{
    (void)state;
    MX_SCOPE;
    float buffer[8];
    assert_int_not_equal(mx_array_read(small_csr(), buffer, sizeof buffer), MX_OK);
    assert_error(MX_ERR_ARGUMENT, "tostype('default')");
    assert_null(mx_array_data(small_csr()));
    assert_error(MX_ERR_ARGUMENT, "tostype('default')");
    assert_string_equal(mx_stype_name(MX_CSR), "csr");
    assert_string_equal(mx_stype_name((mx_stype)-1), "unknown");
    assert_string_equal(mx_stype_name((mx_stype)(MX_CSR + 1)), "unknown");
    assert_null(mx_elemwise_add(two_rows(), small_csr()));
    assert_error(MX_ERR_SHAPE, "elemwise_add");
}

static void products(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *csr = small_csr(), *right = mx_reshape(FLOATS(1, 2, 3), .shape = MX_DIMS(3, 1));
    mx_array *left = mx_reshape(FLOATS(1, 2), .shape = MX_DIMS(2, 1));
    EXPECT(mx_dot(csr, right), MX_STYPE_DEFAULT, 10, 27);
    EXPECT(mx_dot(csr, left, .transpose_a = true), MX_ROW_SPARSE, 12, 5, 14);
    EXPECT(mx_dot(right, csr, .transpose_a = true, .transpose_b = true), MX_CSR, 10, 27);
    EXPECT(mx_elemwise_add(two_rows(), two_rows()), MX_ROW_SPARSE, 0, 0, 2, 4, 0, 0, 6, 8);
    EXPECT(mx_elemwise_sub(csr, csr), MX_CSR, 0, 0, 0, 0, 0, 0);
    EXPECT(mx_elemwise_mul(csr, csr), MX_CSR, 0, 25, 0, 36, 0, 49);
    EXPECT(mx_square(csr), MX_CSR, 0, 25, 0, 36, 0, 49);
    EXPECT(mx_sum(csr, .axis = MX_DIMS(0)), MX_STYPE_DEFAULT, 6, 5, 7);
    EXPECT(mx_sparse_retain(two_rows(), INTS(3, 0)), MX_ROW_SPARSE, 0, 0, 0, 0, 0, 0, 3, 4);
    mx_array *sum = mx_sparse_zeros(MX_ROW_SPARSE, MX_DIMS(4, 2), MX_FLOAT32, HERE);
    assert_int_equal(mx_array_set(sum, two_rows()), MX_OK);
    EXPECT(sum, MX_ROW_SPARSE, 0, 0, 1, 2, 0, 0, 3, 4);
}

/* The gradient of an embedding has the rows that were looked up, whatever the size of the table. */
/* A row, a column and a number scale what a csr stores. */
static void broadcast_factors(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *csr = small_csr(), *row = FLOATS(2, 3, 4), *column = mx_reshape(FLOATS(2, 4), .shape = MX_DIMS(2, 1));
    EXPECT(mx_mul(csr, row), MX_CSR, 0, 15, 0, 12, 0, 28);
    EXPECT(mx_mul(csr, mx_reshape(row, .shape = MX_DIMS(1, 3))), MX_CSR, 0, 15, 0, 12, 0, 28);
    EXPECT(mx_mul(csr, column), MX_CSR, 0, 10, 0, 24, 0, 28);
    EXPECT(mx_div(csr, column), MX_CSR, 0, 2.5, 0, 1.5, 0, 1.75);
    EXPECT(mx_mul(csr, FLOATS(3)), MX_CSR, 0, 15, 0, 18, 0, 21);
}

/* Few rows of very many, and rows that are single numbers. */
static void unusual_shapes(void **state)
{
    (void)state;
    MX_SCOPE;
    const int64_t many = (int64_t)1 << 44;
    mx_array *tall =
        mx_row_sparse(MX_DIMS(many, 1), mx_reshape(FLOATS(1, 2), .shape = MX_DIMS(2, 1)), INTS(3, many - 1));
    mx_array *kept = mx_sparse_retain(tall, INTS(many - 1, 4, 3));
    assert_fine();
    EXPECT(mx_sparse_indices(kept), MX_STYPE_DEFAULT, 3, 4, (double)(many - 1));
    EXPECT(mx_sparse_data(kept), MX_STYPE_DEFAULT, 1, 0, 2);
    mx_array *flat = mx_row_sparse(MX_DIMS(4), FLOATS(5, 6), INTS(1, 2));
    EXPECT(mx_sparse_retain(flat, INTS(2, 0)), MX_ROW_SPARSE, 0, 0, 6, 0);
    assert_null(mx_csr(MX_DIMS(3, 3), FLOATS(1, 2), INTS(0, 1), INTS(0, 2, 1, 2)));
    assert_error(MX_ERR_ARGUMENT, "from 2 to 1 at row 1");
}

static void gradients(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *weight = mx_ones(.shape = MX_DIMS(4, 2)), *ids = FLOATS(3, 1, 3), *y;
    mx_attach_grad_as(weight, MX_GRAD_ADD, MX_ROW_SPARSE);
    for (int i = 0; i < 2; i++) {
        mx_record()
            y = mx_op_embedding(ids, weight, .input_dim = 4, .output_dim = 2, .sparse_grad = true);
        assert_int_equal(mx_backward(y), MX_OK);
    }
    EXPECT(mx_gradient(weight), MX_ROW_SPARSE, 0, 0, 2, 2, 0, 0, 4, 4);
    assert_int_equal(mx_sparse_count(mx_gradient(weight)), 2);
    mx_array *column = mx_ones(.shape = MX_DIMS(3, 1));
    mx_attach_grad(column, MX_GRAD_WRITE);
    mx_record()
        y = mx_dot(small_csr(), column);
    assert_int_equal(mx_backward(y), MX_OK);
    EXPECT(mx_gradient(column), MX_STYPE_DEFAULT, 6, 5, 7);
}

static void lazy_updates(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_embedding(1000000, 4, .sparse_grad = true);
    mx_initialize(net, mx_one(), HERE);
    mx_trainer *trainer = mx_trainer_new(mx_collect_params(net), "sgd", "learning_rate=0.5, momentum=0.9");
    mx_parameter *p = mx_params_at(mx_collect_params(net), 0);
    mx_array *y;
    for (int hybridized = 0; hybridized < 2; hybridized++) {
        if (hybridized)
            mx_hybridize(net);
        mx_record()
            y = mx_call(net, FLOATS(7, 999999));
        mx_backward(y);
        const int64_t before = mx_alloc_get_stats().live_bytes;
        mx_trainer_step(trainer, 1);
        assert_fine();
        if (hybridized) /* the first step creates the momentum */
            assert_in_range(mx_alloc_get_stats().live_bytes - before + 65536, 0, 131072);
    }
    mx_array *rows = mx_parameter_rows(p, FLOATS(999999, 0, 7));
    assert_fine();
    EXPECT(mx_sparse_indices(rows), MX_STYPE_DEFAULT, 0, 7, 999999);
    EXPECT(mx_sparse_data(rows), MX_STYPE_DEFAULT, 1, 1, 1, 1, -0.45, -0.45, -0.45, -0.45, -0.45, -0.45, -0.45, -0.45);
    assert_null(mx_parameter_rows(p, FLOATS(1000000)));
    assert_error(MX_ERR_INDEX, "row 1000000");
}

static void files(void **state)
{
    (void)state;
    MX_SCOPE;
    char path[] = "/tmp/sparse_test_XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    const char *names[] = {"rows", "csr", "dense", "none"};
    mx_array *none = mx_sparse_zeros(MX_CSR, MX_DIMS(2, 2), MX_FLOAT32, HERE);
    mx_save(path, MX_ARRAYS(two_rows(), small_csr(), FLOATS(1, 2), none), names);
    mx_array_dict *dict = mx_load(path);
    EXPECT(mx_array_dict_get(dict, "rows"), MX_ROW_SPARSE, 0, 0, 1, 2, 0, 0, 3, 4);
    EXPECT(mx_array_dict_get(dict, "csr"), MX_CSR, 0, 5, 0, 6, 0, 7);
    EXPECT(mx_array_dict_get(dict, "dense"), MX_STYPE_DEFAULT, 1, 2);
    EXPECT(mx_array_dict_get(dict, "none"), MX_CSR, 0, 0, 0, 0);
    FILE *text = fopen(path, "w");
    fputs("1 0:0.5 2:1.5\n0 1:2\n", text);
    fclose(text);
    mx_array *data, *label;
    assert_int_equal(mx_load_libsvm(path, 3, MX_FLOAT32, &data, &label), MX_OK);
    EXPECT(data, MX_CSR, 0.5, 0, 1.5, 0, 2, 0);
    EXPECT(label, MX_STYPE_DEFAULT, 1, 0);
    assert_int_not_equal(mx_load_libsvm(path, 2, MX_FLOAT32, &data, &label), MX_OK);
    assert_error(MX_ERR_FILE, "line 1");
    unlink(path);
}

static void everything(void)
{
    mx_array *csr = small_csr(), *rows = two_rows(), *y, *weight = mx_ones(.shape = MX_DIMS(4, 2));
    mx_tostype(mx_tostype(csr, MX_STYPE_DEFAULT), MX_ROW_SPARSE);
    mx_dot(csr, mx_ones(.shape = MX_DIMS(3, 2)));
    mx_dot(csr, mx_ones(.shape = MX_DIMS(2, 2)), .transpose_a = true);
    mx_dot(csr, mx_tostype(mx_ones(.shape = MX_DIMS(3, 2)), MX_ROW_SPARSE));
    mx_elemwise_mul(rows, mx_elemwise_add(rows, rows));
    mx_elemwise_sub(csr, csr);
    mx_concat(MX_ARRAYS(csr, csr), .dim = 0);
    mx_take(csr, INTS(1, 0, 1));
    mx_sparse_retain(rows, INTS(3, 0));
    mx_sgd_update(weight, rows, .lr = 0.1, .out = weight);
    mx_attach_grad_as(weight, MX_GRAD_WRITE, MX_ROW_SPARSE);
    mx_record()
        y = mx_op_embedding(INTS(1, 1, 2), weight, .input_dim = 4, .output_dim = 2, .sparse_grad = true);
    mx_backward(y);
}

/* Whichever allocation fails: nothing leaks, and the error is about memory. */
static void failing_allocations(void **state)
{
    (void)state;
    mx_scoped()
        everything();
    assert_fine();
    const int64_t live = mx_alloc_get_stats().live_blocks;
    bool failed = true;
    for (int n = 1; failed && n < 2000; n++) {
        mx_alloc_fail_at(n);
        mx_scoped()
            everything();
        mx_alloc_fail_at(0);
        failed = mx_error_code() != MX_OK;
        if (failed)
            assert_error(MX_ERR_MEMORY, "");
        assert_int_equal(mx_alloc_get_stats().live_blocks, live);
    }
    assert_false(failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts),     cmocka_unit_test(wrong_parts),  cmocka_unit_test(refusals), cmocka_unit_test(dense_copies),
        cmocka_unit_test(products),  cmocka_unit_test(broadcast_factors), cmocka_unit_test(unusual_shapes), cmocka_unit_test(gradients),    cmocka_unit_test(lazy_updates),
        cmocka_unit_test(files),     cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
