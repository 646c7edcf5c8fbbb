/* A program as it was written for MXNet's C interface for prediction: y = fc(data) with weights made by hand.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <mxnet/c_predict_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char json[] =
    "{\"nodes\": [{\"op\": \"null\", \"name\": \"data\", \"inputs\": []},"
    " {\"op\": \"null\", \"name\": \"fc_weight\", \"inputs\": []},"
    " {\"op\": \"FullyConnected\", \"name\": \"fc\", \"attrs\": {\"num_hidden\": \"2\", \"no_bias\": \"True\"},"
    "  \"inputs\": [[0, 0, 0], [1, 0, 0]]}],"
    " \"arg_nodes\": [0, 1], \"node_row_ptr\": [0, 1, 2, 3], \"heads\": [[2, 0, 0]]}";

/* A .params file with one float32 array arg:fc_weight of shape (2, 3). */
static int make_params(char *to)
{
    const uint64_t head[] = {0x112, 0, 1}, names[] = {1, 13};
    const uint32_t array[] = {0xF993fac9u, 0, 2}, device[] = {1, 0, 0};
    const int64_t shape[] = {2, 3};
    const float weight[] = {1, 0, 0, 0, 1, 1};
    char *p = to;
#define PUT(what) (memcpy(p, what, sizeof what), p += sizeof what)
    PUT(head);
    PUT(array);
    PUT(shape);
    PUT(device);
    PUT(weight);
    PUT(names);
    memcpy(p, "arg:fc_weight", 13);
    return (int)(p + 13 - to);
}

#define CHECK(call)                                                          \
    if ((call) != 0) {                                                       \
        fprintf(stderr, "old_predict: %s: %s\n", #call, MXGetLastError());   \
        return 1;                                                            \
    }

int main(void)
{
    char params[256];
    const char *keys[] = {"data"};
    const mx_uint indptr[] = {0, 2}, dims[] = {1, 3};
    const mx_float input[] = {2, 3, 4};
    mx_float output[2] = {0, 0};
    mx_uint *shape = NULL, ndim = 0;
    PredictorHandle predictor = NULL;
    CHECK(MXPredCreate(json, params, make_params(params), 1, 0, 1, keys, indptr, dims, &predictor));
    CHECK(MXPredSetInput(predictor, "data", input, 3));
    CHECK(MXPredForward(predictor));
    CHECK(MXPredGetOutputShape(predictor, 0, &shape, &ndim));
    CHECK(ndim != 2 || shape[0] != 1 || shape[1] != 2);
    CHECK(MXPredGetOutput(predictor, 0, output, 2));
    CHECK(MXPredFree(predictor));
    if (output[0] != 2 || output[1] != 7) {
        fprintf(stderr, "old_predict: %g %g, wanted 2 7\n", (double)output[0], (double)output[1]);
        return 1;
    }
    if (MXPredForward(NULL) != -1 || !strlen(MXGetLastError()))
        return 1;
    printf("old_predict: 2 7\n");
    return 0;
}
