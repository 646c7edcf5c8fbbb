/* MXNet's C interface for prediction, used as old programs use it, and with wrong arguments.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gluon.h"
#include "mxnet/c_api.h"
#include "mxnet/c_predict_api.h"

#define OK(call) assert_call((call), #call)

static void assert_call(int code, const char *call)
{
    if (code)
        fail_msg("%s: %s", call, MXGetLastError());
}

static void assert_fails(int code, const char *message)
{
    assert_int_equal(code, -1);
    if (!strstr(MXGetLastError(), message))
        fail_msg("the message is '%s', wanted '%s'", MXGetLastError(), message);
    assert_int_equal(mx_error_code(), MX_OK); /* the record of other functions stays clean */
}

/* ---- a model in memory ------------------------------------------------------------------------------------------- */

static struct model {
    char *json, *params;
    int json_bytes, params_bytes;
    float input[2 * 3 * 8 * 8], output[2 * 5]; /* of the network itself */
} model;

static char *slurp(const char *path, int *bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *bytes = (int)ftell(file);
    rewind(file);
    char *text = calloc(1, (size_t)*bytes + 1);
    assert_int_equal(fread(text, 1, (size_t)*bytes, file), *bytes);
    fclose(file);
    return text;
}

static int make_model(void **state)
{
    (void)state;
    MX_SCOPE;
    char folder[] = "/tmp/gluon-predict-XXXXXX", path[64], file[96];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/net", folder);
    mx_block *net = mx_hybrid_sequential(mx_conv2d(4, MX_DIMS(3, 3), .activation = "relu", .prefix = "conv_"),
                                         mx_batch_norm(.prefix = "norm_"), mx_flatten(), mx_dense(5, .prefix = "fc_"));
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_array *x = mx_random_uniform(.shape = MX_DIMS(2, 3, 8, 8));
    mx_array *y = mx_softmax(mx_call(net, x));
    assert_int_equal(mx_array_read(x, model.input, sizeof model.input), MX_OK);
    assert_int_equal(mx_array_read(y, model.output, sizeof model.output), MX_OK);
    /* with the loss of a training symbol on top, whose label nobody gives */
    mx_array *scores = mx_call(net, mx_variable("data"));
    mx_symbol *symbol = mx_symbol_of(MX_ARRAYS(mx_softmax_output(scores, mx_variable("softmax_label"))));
    assert_int_equal(mx_export(net, path, 0), MX_OK);
    snprintf(file, sizeof file, "%s-symbol.json", path);
    assert_int_equal(mx_symbol_save(symbol, file), MX_OK);
    model.json = slurp(file, &model.json_bytes);
    unlink(file);
    snprintf(file, sizeof file, "%s-0000.params", path);
    model.params = slurp(file, &model.params_bytes);
    unlink(file);
    rmdir(folder);
    return mx_error_code() != MX_OK;
}

static int free_model(void **state)
{
    (void)state;
    free(model.json);
    free(model.params);
    return 0;
}

static const char *keys[] = {"data"};
static const mx_uint indptr[] = {0, 4}, shape[] = {2, 3, 8, 8}, one[] = {1, 3, 8, 8};
#define MODEL model.json, model.params, model.params_bytes, 1, 0
#define INPUT 1, keys, indptr, shape

static void assert_scores(const float *have, const float *want, int n)
{
    for (int i = 0; i < n; i++)
        if (have[i] - want[i] > 1e-5f || want[i] - have[i] > 1e-5f)
            fail_msg("score %d is %g, wanted %g", i, (double)have[i], (double)want[i]);
}

static void predict(PredictorHandle p)
{
    float scores[10];
    OK(MXPredSetInput(p, "data", model.input, 2 * 3 * 8 * 8));
    OK(MXPredForward(p));
    OK(MXPredGetOutput(p, 0, scores, 10));
    assert_scores(scores, model.output, 10);
}

/* ---- as old programs do ------------------------------------------------------------------------------------------- */

static void test_predict(void **state)
{
    (void)state;
    PredictorHandle p = NULL;
    mx_uint *dims = NULL, ndim = 0;
    int type = -1;
    OK(MXPredCreate(MODEL, INPUT, &p));
    OK(MXPredGetOutputShape(p, 0, &dims, &ndim)); /* before the forward */
    assert_int_equal(ndim, 2);
    assert_int_equal(dims[0], 2);
    assert_int_equal(dims[1], 5);
    OK(MXPredGetOutputType(p, 0, &type));
    assert_int_equal(type, 0);
    predict(p);
    predict(p);
    OK(MXPredFree(p));
}

static void test_partial_forward(void **state)
{
    (void)state;
    PredictorHandle p = NULL;
    float scores[10];
    OK(MXPredCreate(MODEL, INPUT, &p));
    OK(MXPredSetInput(p, "data", model.input, 2 * 3 * 8 * 8));
    int left = 1, steps = 0;
    for (; left; steps++)
        OK(MXPredPartialForward(p, steps, &left));
    assert_true(steps >= 6); /* convolution, relu, norm, flatten, dense, softmax */
    OK(MXPredGetOutput(p, 0, scores, 10));
    assert_scores(scores, model.output, 10);
    OK(MXPredPartialForward(p, 0, &left)); /* begun and not ended */
    predict(p);
    OK(MXPredFree(p));
}

static void test_partial_outputs(void **state)
{
    (void)state;
    PredictorHandle p = NULL;
    mx_uint *dims, ndim;
    const char *outputs[] = {"conv_fwd", "fc_fwd_output"};
    OK(MXPredCreatePartialOut(MODEL, INPUT, 2, outputs, &p));
    OK(MXPredSetInput(p, "data", model.input, 2 * 3 * 8 * 8));
    OK(MXPredForward(p));
    OK(MXPredGetOutputShape(p, 0, &dims, &ndim));
    assert_int_equal(ndim, 4);
    assert_int_equal(dims[1], 4);
    OK(MXPredGetOutputShape(p, 1, &dims, &ndim));
    assert_int_equal(dims[1], 5);
    OK(MXPredFree(p));
    const char *wrong[] = {"fc2"};
    assert_fails(MXPredCreatePartialOut(MODEL, INPUT, 1, wrong, &p), "no node named 'fc2'");
}

static void test_reshape(void **state)
{
    (void)state;
    PredictorHandle p = NULL, small = NULL;
    float scores[5];
    OK(MXPredCreate(MODEL, INPUT, &p));
    OK(MXPredReshape(1, keys, indptr, one, p, &small));
    OK(MXPredSetInput(small, "data", model.input, 3 * 8 * 8));
    OK(MXPredForward(small));
    OK(MXPredGetOutput(small, 0, scores, 5));
    assert_scores(scores, model.output, 5);
    OK(MXPredFree(small));
    predict(p); /* the first one is as it was */
    const mx_uint flat[] = {0, 2};
    assert_fails(MXPredReshape(1, keys, flat, one, p, &small), "conv_fwd");
    const char *other[] = {"image"};
    assert_fails(MXPredReshape(1, other, indptr, one, p, &small), "no input named 'image'");
    OK(MXPredFree(p));
}

static void *predict_often(void *p)
{
    for (int i = 0; i < 20; i++)
        predict(p);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    PredictorHandle p[4];
    pthread_t threads[4];
    OK(MXPredCreateMultiThread(MODEL, INPUT, 4, p));
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, predict_often, p[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++)
        OK(MXPredFree(p[i]));
    assert_fails(MXPredCreateMultiThread(MODEL, INPUT, 0, p), "num_threads is 0");
}

static void test_types(void **state)
{
    (void)state;
    MX_SCOPE;
    PredictorHandle p = NULL;
    /* as exported networks note the types of their parameters, those are given, too */
    const char *names[] = {"data",       "conv_weight", "conv_bias",         "norm_gamma",      "norm_beta", "fc_weight",
                           "fc_bias", "softmax_label", "norm_running_mean", "norm_running_var"};
    const int types[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, wrong[] = {99};
    int type;
    OK(MXPredCreateEx(MODEL, INPUT, 10, names, types, &p));
    double input[2 * 3 * 8 * 8], scores[10];
    for (int i = 0; i < 2 * 3 * 8 * 8; i++)
        input[i] = (double)model.input[i];
    OK(MXPredSetInput(p, "data", (const float *)(const void *)input, 2 * 3 * 8 * 8));
    OK(MXPredForward(p));
    OK(MXPredGetOutputType(p, 0, &type));
    assert_int_equal(type, MX_FLOAT64);
    OK(MXPredGetOutput(p, 0, (float *)(void *)scores, 10));
    assert_true(scores[3] - (double)model.output[3] < 1e-5 && (double)model.output[3] - scores[3] < 1e-5);
    OK(MXPredFree(p));
    assert_fails(MXPredCreateEx(MODEL, INPUT, 1, names, wrong, &p), "99 for 'data' is not an element type");
}

static int seen;
static void see(const char *name, NDArrayHandle array, void *user)
{
    mx_uint ndim;
    const mx_uint *dims;
    OK(MXNDArrayGetShape(array, &ndim, &dims));
    assert_true(ndim > 0 && dims[0] == 2);
    if (!strcmp(name, "fc_fwd_output"))
        assert_string_equal(user, "mine");
    seen++;
}

static void test_monitor(void **state)
{
    (void)state;
    PredictorHandle p = NULL;
    OK(MXPredCreate(MODEL, INPUT, &p));
    seen = 0;
    OK(MXPredSetMonitorCallback(p, see, "mine", false));
    predict(p);
    assert_true(seen >= 6);
    OK(MXPredSetMonitorCallback(p, NULL, NULL, false));
    const int before = seen;
    predict(p);
    assert_int_equal(seen, before);
    OK(MXPredFree(p));
}

static void test_lists(void **state)
{
    (void)state;
    NDListHandle list = NULL;
    mx_uint length = 0, ndim;
    const char *key;
    const float *data;
    const mx_uint *dims;
    OK(MXNDListCreate(model.params, model.params_bytes, &list, &length));
    assert_int_equal(length, 8);
    int found = 0;
    for (mx_uint i = 0; i < length; i++) {
        OK(MXNDListGet(list, i, &key, &data, &dims, &ndim));
        if (strcmp(key, "arg:fc_weight"))
            continue;
        found = 1;
        assert_int_equal(ndim, 2);
        assert_int_equal(dims[0], 5);
        assert_int_equal(dims[1], 4 * 6 * 6);
        assert_true(data[0] != 0 && data[0] > -1 && data[0] < 1);
    }
    assert_true(found);
    assert_fails(MXNDListGet(list, 8, &key, &data, &dims, &ndim), "no array 8");
    OK(MXNDListFree(list));
    assert_fails(MXNDListCreate("not a file", 10, &list, &length), "");
    assert_fails(MXNDListCreate(NULL, 10, &list, &length), "nd_file_bytes is NULL");
    assert_fails(MXNDListFree(NULL), "handle is NULL");
}

static void test_arrays(void **state)
{
    (void)state;
    NDArrayHandle x = NULL, y = NULL;
    const mx_uint dims[] = {2, 3};
    const float values[] = {1, 2, 3, 4, 5, 6};
    float back[6] = {0};
    int type, device, id, version;
    DLManagedTensorHandle tensor;
    OK(MXNDArrayCreateEx(dims, 2, 1, 0, 0, 0, &x));
    OK(MXNDArraySyncCopyFromCPU(x, values, 6));
    OK(MXNDArraySyncCopyToCPU(x, back, 6));
    assert_memory_equal(back, values, sizeof back);
    OK(MXNDArrayGetDType(x, &type));
    OK(MXNDArrayGetContext(x, &device, &id));
    OK(MXGetVersion(&version));
    assert_true(type == 0 && device == 1 && id == 0 && version == 10901);
    OK(MXNDArrayToDLPack(x, &tensor));
    OK(MXNDArrayFromDLPack(tensor, &y));
    memset(back, 0, sizeof back);
    OK(MXNDArraySyncCopyToCPU(y, back, 6));
    assert_memory_equal(back, values, sizeof back);
    OK(MXNDArrayToDLPack(x, &tensor));
    OK(MXNDArrayCallDLPackDeleter(tensor));
    assert_fails(MXNDArraySyncCopyToCPU(x, back, 5), "size is 5 elements, the array has shape (2, 3)");
    assert_fails(MXNDArrayFromDLPack(NULL, &y), "dlpack is NULL");
    assert_fails(MXNDArrayGetDType(NULL, &type), "handle is NULL");
    OK(MXNDArrayFree(x));
    assert_fails(MXNDArrayCreateEx(dims, 2, 1, 0, 0, 77, &x), "");
    OK(MXNDArrayFree(y));
    OK(MXNDArrayWaitAll());
}

/* ---- wrong arguments ---------------------------------------------------------------------------------------------- */

static void test_wrong(void **state)
{
    (void)state;
    PredictorHandle p = NULL;
    mx_uint *dims, ndim;
    int left;
    float scores[10];
    const char *wrong[] = {"image"};
    const mx_uint backwards[] = {4, 0};
    assert_fails(MXPredCreate(NULL, model.params, 10, 1, 0, INPUT, &p), "symbol_json_str is NULL");
    assert_fails(MXPredCreate("{", model.params, model.params_bytes, 1, 0, INPUT, &p), "");
    assert_fails(MXPredCreate(model.json, model.params, 0, 1, 0, INPUT, &p), "param_size is 0");
    assert_fails(MXPredCreate(model.json, model.params, model.params_bytes / 2, 1, 0, INPUT, &p), "");
    assert_fails(MXPredCreate(model.json, model.params, model.params_bytes, 7, 0, INPUT, &p), "dev_type is 7");
    assert_fails(MXPredCreate(MODEL, 1, wrong, indptr, shape, &p), "no input named 'image'");
    assert_fails(MXPredCreate(MODEL, 0, keys, indptr, shape, &p), "no input is named");
    assert_fails(MXPredCreate(MODEL, 1, keys, backwards, shape, &p), "input_shape_indptr has 4 and then 0");
    assert_fails(MXPredCreate(MODEL, 1, keys, indptr, NULL, &p), "input_shape_data is NULL");
    assert_fails(MXPredCreate(MODEL, INPUT, NULL), "out is NULL");
    assert_null(p);
    OK(MXPredCreate(MODEL, INPUT, &p));
    assert_fails(MXPredGetOutput(p, 0, scores, 10), "run MXPredForward() first");
    assert_fails(MXPredSetInput(p, "image", model.input, 4), "no input named 'image'; the first one is 'data'");
    assert_fails(MXPredSetInput(p, "data", model.input, 4), "4 elements were given for 'data' of shape (2, 3, 8, 8)");
    assert_fails(MXPredSetInput(p, NULL, model.input, 4), "no input named 'NULL'");
    assert_fails(MXPredGetOutputShape(p, 1, &dims, &ndim), "there is no output 1; the predictor has 1");
    assert_fails(MXPredPartialForward(p, 3, &left), "step 3 comes before step 0");
    assert_fails(MXPredPartialForward(p, -1, &left), "step is -1");
    OK(MXPredForward(p));
    assert_fails(MXPredGetOutput(p, 0, scores, 9), "room for 9 elements, output 0 has shape (2, 5)");
    predict(p);
    OK(MXPredFree(p));
    assert_fails(MXPredForward(NULL), "handle is NULL");
    assert_fails(MXPredFree(NULL), "handle is NULL");
}

/* A parameter that the file lacks is named, not filled with zeros. */
static void test_missing_parameter(void **state)
{
    (void)state;
    MX_SCOPE;
    PredictorHandle p = NULL;
    char path[] = "/tmp/gluon-predict-XXXXXX";
    const int descriptor = mkstemp(path);
    mx_array *weight = mx_zeros(.shape = MX_DIMS(4, 3, 3, 3));
    const char *const names[] = {"arg:conv_weight"};
    assert_int_equal(mx_save(path, MX_ARRAYS(weight), names), MX_OK);
    int bytes;
    char *params = slurp(path, &bytes);
    assert_fails(MXPredCreate(model.json, params, bytes, 1, 0, INPUT, &p), "'conv_bias' has no value");
    free(params);
    close(descriptor);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_predict),         cmocka_unit_test(test_partial_forward),
        cmocka_unit_test(test_partial_outputs), cmocka_unit_test(test_reshape),
        cmocka_unit_test(test_threads),         cmocka_unit_test(test_types),
        cmocka_unit_test(test_monitor),         cmocka_unit_test(test_lists),
        cmocka_unit_test(test_arrays),          cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_missing_parameter),
    };
    return cmocka_run_group_tests(tests, make_model, free_model);
}
