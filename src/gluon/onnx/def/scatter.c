/* Scattering, with what is done where several updates meet.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "gluon/onnx/def/indices.h"
#include "ndarray/array.h"

enum { MOST_ROUNDS = 256 };

static mx_array *combined(const char *how, mx_array *a, mx_array *b)
{
    return !strcmp(how, "mul") ? mx_mul(a, b) : !strcmp(how, "max") ? mx_maximum(a, b) : mx_minimum(a, b);
}

/* How often the element of each tuple (k, count) was written before; -1: out of memory, or too often. */
static int64_t *earlier(mx_onnx_in *n, mx_array *indices, int64_t count, int64_t *rounds)
{
    const mx_shape_t shape = {.ndim = 1, .dim = {count + 1}};
    mx_array *list = mx_scope_add(mx_array_new(&shape, MX_INT64, mx_cpu(0)));
    const int64_t *at = mx_data(indices), tuple = indices->shape[0];
    int64_t *seen = list ? mx_data(list) : NULL;
    mx_dict places = {0};
    *rounds = 1;
    for (int64_t j = 0; seen && j < count; j++) {
        char key[MX_MAX_NDIM * 21 + 1];
        int used = 0;
        for (int64_t i = 0; i < tuple && i < MX_MAX_NDIM; i++)
            used += snprintf(key + used, sizeof key - (size_t)used, "%lld.", (long long)at[i * count + j]);
        seen[j] = mx_dict_count(&places, key);
        *rounds = seen[j] >= *rounds ? seen[j] + 1 : *rounds;
        if (seen[j] < 0 || *rounds > MOST_ROUNDS) {
            if (!mx_has_error())
                mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "more than %d updates of one element", MOST_ROUNDS);
            seen = NULL;
        }
    }
    mx_dict_free(&places);
    return seen;
}

/* The places of a list that have a number. */
static mx_array *chosen(const int64_t *list, int64_t count, int64_t number)
{
    mx_shape_t shape = {.ndim = 1};
    for (int64_t i = 0; i < count; i++)
        shape.dim[0] += list[i] == number;
    mx_array *places = mx_scope_add(mx_array_new(&shape, MX_INT64, mx_cpu(0)));
    int64_t *to = places && shape.dim[0] ? mx_data(places) : NULL;
    for (int64_t i = 0; to && i < count; i++)
        if (list[i] == number)
            *to++ = i;
    return places;
}

/* Products and extremes: as many rounds as one element has updates, each of them with different elements. */
static mx_array *in_rounds(mx_onnx_in *n, mx_array *data, mx_array *indices, mx_array *updates, const char *how)
{
    mx_dims shape;
    int64_t rounds;
    if (!n->value[1])
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED,
                            "its input 1 ('%s') is computed from the network's inputs; it must be constant",
                            n->in_name[1]),
               NULL;
    const int64_t tuple = indices->shape[0];
    mx_array *flat = mx_onnx_cast(mx_reshape(indices, .shape = MX_DIMS(tuple, -1)), MX_INT64);
    const int64_t *seen = flat && mx_onnx_shape(n, 0, &shape) ? earlier(n, flat, flat->shape[1], &rounds) : NULL;
    if (!seen)
        return NULL;
    mx_dims rest = {.n = shape.n - (int)tuple + 1, .d = {-1}};
    for (int i = 1; i < rest.n; i++)
        rest.d[i] = shape.d[tuple + i - 1];
    updates = mx_reshape(updates, .shape = rest);
    for (int64_t r = 0; data && r < rounds; r++) {
        mx_array *places = chosen(seen, flat->shape[1], r), *at = mx_take(flat, places, .axis = 1);
        mx_array *now = combined(how, mx_gather_nd(data, at), mx_take(updates, places));
        data = mx_scatter_set_nd(data, now, at, .shape = shape);
    }
    return data;
}

/* data with updates at indices (tuples first) */
static mx_array *scatter(mx_onnx_in *n, mx_array *data, mx_array *indices, mx_array *updates)
{
    char how[64];
    mx_scatter_nd_attrs attrs;
    if (!indices || !mx_onnx_shape(n, 0, &attrs.shape))
        return NULL;
    mx_onnx_text(n, "reduction", how, "none");
    if (!strcmp(how, "none"))
        return mx_scatter_set_nd(data, updates, indices, .shape = attrs.shape);
    if (strcmp(how, "add"))
        return in_rounds(n, data, indices, updates, how);
    mx_array *in[2] = {updates, indices}, *sums[1] = {NULL};
    return mx_invoke(mx_op_find("_backward_gather_nd"), &attrs, 2, in, 1, sums) ? NULL : mx_add(data, sums[0]);
}

static mx_code read_scatter_nd(mx_onnx_in *n)
{
    if (mx_onnx_rank(n, 0) < 1 || mx_onnx_rank(n, 1) < 1)
        return mx_error_code();
    mx_array *indices = mx_onnx_wrapped_tuples(n, n->in[1], n->in[0], 0);
    n->out[0] = indices ? scatter(n, n->in[0], mx_onnx_tuples_first(indices), n->in[2]) : NULL;
    return MX_OK;
}

static mx_code read_scatter_elements(mx_onnx_in *n)
{
    int64_t axis = mx_onnx_int(n, "axis", 0);
    const int rank = mx_onnx_rank(n, 0);
    if (rank < 1 || !mx_onnx_axis(n, &axis, rank) || n->in[1]->ndim != rank)
        return mx_onnx_fail(n, MX_ERR_FILE, "data and indices have different numbers of axes");
    n->out[0] = scatter(n, n->in[0], mx_onnx_full_indices(n, n->in[1], axis, n->in[0]->shape[axis]), n->in[2]);
    return MX_OK;
}

const mx_onnx_row mx_onnx_scatter[] = {READ("ScatterND", read_scatter_nd, .constants = 2),
                                       READ("ScatterElements", read_scatter_elements, .constants = 2),
                                       READ("Scatter", read_scatter_elements, .constants = 2),
                                       {0}};
