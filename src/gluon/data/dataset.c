/* Data sets (see gluon/data.h).  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/given.h"
#include "exec/call.h"
#include "exec/list.h"
#include "gluon/data/data.h"
#include "gluon/op.gen.h"

static void destroy(mx_object *object)
{
    mx_dataset *d = (mx_dataset *)object;
    for (int64_t i = 0; i < d->n_arrays; i++)
        mx_release(d->arrays[i]);
    mx_free(d->arrays, (size_t)d->n_arrays * sizeof *d->arrays);
    mx_release(d->base);
    mx_release(d->transform);
    if (d->release)
        d->release(d->user);
    mx_free(d, sizeof *d);
}
const mx_kind mx_dataset_kind = {"data set", destroy};

static bool ok(const mx_dataset *d, const char *function)
{
    return mx_is_kind(d, &mx_dataset_kind, function, "dataset");
}

mx_dataset *mx_dataset_make(const mx_dataset_methods *methods, int64_t length)
{
    mx_dataset *d = mx_alloc_zero(sizeof *d);
    if (!d)
        return NULL;
    mx_object_init(&d->object, &mx_dataset_kind);
    d->methods = methods;
    d->length = length;
    return d;
}

/* ---- rows of arrays ------------------------------------------------------------------------------------------------- */

static mx_shape_t row_shape(const mx_array *x)
{
    mx_shape_t shape = {.ndim = x->ndim - 1};
    memcpy(shape.dim, x->shape + 1, (size_t)shape.ndim * sizeof shape.dim[0]);
    return shape;
}

static mx_arrays array_at(mx_dataset *self, int64_t i)
{
    mx_array **row = mx_list_new(self->n_arrays);
    for (int64_t k = 0; row && k < self->n_arrays; k++) {
        mx_array *x = self->arrays[k];
        mx_shape_t shape = row_shape(x);
        const int64_t bytes = (int64_t)mx_bytes(x) / (x->shape[0] ? x->shape[0] : 1);
        if (!(row[k] = mx_scope_add(mx_array_view(x, i * bytes, &shape, (mx_dtype)x->dtype))))
            return mx_list_failed();
    }
    return row ? (mx_arrays){row, self->n_arrays} : mx_list_failed();
}

static mx_array *gather_host(mx_array *x, const int64_t *index, int64_t n)
{
    mx_shape_t shape = mx_array_shape(x);
    shape.dim[0] = n;
    mx_array *out = mx_scope_add(mx_array_new(&shape, (mx_dtype)x->dtype, x->context));
    if (!out)
        return NULL;
    const size_t bytes = mx_bytes(x) / (size_t)(x->shape[0] ? x->shape[0] : 1);
    char *to = mx_array_data(out);
    const char *from = mx_array_data(x);
    for (int64_t i = 0; i < n && bytes; i++)
        memcpy(to + (size_t)i * bytes, from + (size_t)index[i] * bytes, bytes);
    return out;
}

static mx_array *gather_device(mx_array *x, const int64_t *index, int64_t n)
{
    mx_array *rows = mx_array_to(mx_array_from(MX_DIMS(n), MX_INT64, index), x->context);
    return rows ? mx_take(x, rows) : NULL;
}

static mx_arrays array_gather(mx_dataset *self, const int64_t *index, int64_t n)
{
    mx_array **out = mx_list_new(self->n_arrays);
    for (int64_t k = 0; out && k < self->n_arrays; k++) {
        mx_array *x = self->arrays[k];
        out[k] = mx_context_is_host(x->context) ? gather_host(x, index, n) : gather_device(x, index, n);
        if (!out[k])
            return mx_list_failed();
    }
    return out ? (mx_arrays){out, self->n_arrays} : mx_list_failed();
}

static const mx_dataset_methods array_methods = {array_at, array_gather};

mx_dataset *mx_array_dataset(mx_arrays arrays)
{
    if (mx_list_check(&arrays, "mx_array_dataset", "arrays"))
        return NULL;
    for (int64_t i = 0; i < arrays.n; i++)
        if (arrays.v[i]->ndim < 1 || !arrays.v[i]->storage || arrays.v[i]->shape[0] != arrays.v[0]->shape[0])
            return mx_fail_null(MX_ERR_SHAPE, "mx_array_dataset: array %lld and array 0 have different numbers of rows",
                                (long long)i);
    if (!arrays.n)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_array_dataset: no arrays were given");
    mx_dataset *d = mx_dataset_make(&array_methods, arrays.v[0]->shape[0]);
    if (!d || !(d->arrays = mx_alloc((size_t)arrays.n * sizeof *d->arrays))) {
        mx_release(d);
        return NULL;
    }
    d->n_arrays = arrays.n;
    for (int64_t i = 0; i < arrays.n; i++)
        d->arrays[i] = mx_retain(arrays.v[i]);
    return mx_scope_add(d);
}

/* ---- functions ------------------------------------------------------------------------------------------------------ */

static mx_arrays function_at(mx_dataset *self, int64_t i)
{
    mx_arrays example = self->example(self->user, i);
    if (!mx_list_check(&example, "data set function", "example") && example.n)
        return example;
    mx_fail(MX_ERR_CALLBACK, "data set: the function returned no example %lld", (long long)i);
    return mx_list_failed();
}
static const mx_dataset_methods function_methods = {function_at, NULL};

mx_dataset *mx_function_dataset(int64_t length, mx_example_fn example, void *user, void (*release)(void *user))
{
    if (length < 0)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_function_dataset: length is %lld, wanted at least 0",
                            (long long)length);
    if (!example)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_function_dataset: example is NULL, wanted a function");
    mx_dataset *d = mx_dataset_make(&function_methods, length);
    if (!d)
        return NULL;
    d->example = example, d->user = user;
    d = mx_scope_add(d);
    if (d)
        d->release = release; /* on failure the user's data stays the caller's */
    return d;
}

/* ---- transforms and parts --------------------------------------------------------------------------------------------- */

static mx_arrays replace_first(mx_dataset *self, mx_arrays in)
{
    mx_array *first = in.n ? mx_call(self->transform, in.v[0]) : NULL;
    mx_array **out = first ? mx_list_new(in.n) : NULL;
    if (!out)
        return mx_list_failed();
    memcpy(out, in.v, (size_t)in.n * sizeof *out);
    out[0] = first;
    return (mx_arrays){out, in.n};
}

static mx_arrays transform_at(mx_dataset *self, int64_t i)
{
    return replace_first(self, self->base->methods->at(self->base, i));
}
static mx_arrays transform_gather(mx_dataset *self, const int64_t *index, int64_t n)
{
    return replace_first(self, mx_dataset_gather(self->base, index, n, NULL));
}
static const mx_dataset_methods one_by_one = {transform_at, NULL}, whole_batches = {transform_at, transform_gather};

/* A container of such transforms takes batches too. */
bool mx_takes_batches(const mx_block *transform)
{
    if (!transform->sequential)
        return transform->layer && transform->layer->batched;
    for (int64_t i = 0; i < transform->children.length; i++)
        if (!mx_takes_batches(transform->children.entries[i].pointer))
            return false;
    return true;
}

static const mx_dataset_methods part_methods;

/* Whether a data set provides batches itself; otherwise examples may differ in shape until they are transformed. */
static bool makes_batches(const mx_dataset *d)
{
    return d->methods == &part_methods ? makes_batches(d->base) : d->methods->gather != NULL;
}

mx_dataset *mx_dataset_transform_first(mx_dataset *dataset, mx_block *transform)
{
    if (!ok(dataset, "mx_dataset_transform_first") ||
        !mx_is_kind(transform, &mx_block_kind, "mx_dataset_transform_first", "transform"))
        return NULL;
    const bool batches = mx_takes_batches(transform) && makes_batches(dataset);
    mx_dataset *d = mx_dataset_make(batches ? &whole_batches : &one_by_one, dataset->length);
    if (!d)
        return NULL;
    d->base = mx_retain(dataset);
    d->transform = mx_retain(transform);
    return mx_scope_add(d);
}

static mx_arrays part_at(mx_dataset *self, int64_t i) { return self->base->methods->at(self->base, self->offset + i); }
static mx_arrays part_gather(mx_dataset *self, const int64_t *index, int64_t n)
{
    int64_t *moved = mx_alloc((size_t)n * sizeof *moved);
    if (!moved)
        return mx_list_failed();
    for (int64_t i = 0; i < n; i++)
        moved[i] = index[i] + self->offset;
    mx_arrays out = mx_dataset_gather(self->base, moved, n, NULL);
    mx_free(moved, (size_t)n * sizeof *moved);
    return out;
}
static const mx_dataset_methods part_methods = {part_at, part_gather};

static mx_dataset *part(mx_dataset *dataset, int64_t offset, int64_t length)
{
    mx_dataset *d = mx_dataset_make(&part_methods, length);
    if (!d)
        return NULL;
    d->base = mx_retain(dataset);
    d->offset = offset;
    return mx_scope_add(d);
}

mx_dataset *mx_dataset_take(mx_dataset *dataset, int64_t count)
{
    if (!ok(dataset, "mx_dataset_take"))
        return NULL;
    if (count < 0)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_dataset_take: count is %lld", (long long)count);
    return part(dataset, 0, count < dataset->length ? count : dataset->length);
}

int64_t mx_shard_start(int64_t length, int64_t shards, int64_t index, int64_t *count)
{
    if (length < 0 || shards < 1 || index < 0 || index >= shards) {
        mx_fail(MX_ERR_ARGUMENT, "mx_dataset_shard: part %lld of %lld does not exist", (long long)index,
                (long long)shards);
        return -1;
    }
    if (!mx_given(count, "mx_shard_start", "count"))
        return -1;
    const int64_t each = length / shards, rest = length % shards; /* the first `rest` parts have one more */
    *count = each + (index < rest);
    return each * index + (index < rest ? index : rest);
}

mx_dataset *mx_dataset_shard(mx_dataset *dataset, int64_t shards, int64_t index)
{
    int64_t count;
    const int64_t start = ok(dataset, "mx_dataset_shard") ? mx_shard_start(dataset->length, shards, index, &count) : -1;
    return start < 0 ? NULL : part(dataset, start, count);
}

/* ---- looking ------------------------------------------------------------------------------------------------------------ */

int64_t mx_dataset_length(const mx_dataset *dataset) { return ok(dataset, "mx_dataset_length") ? dataset->length : 0; }

mx_arrays mx_dataset_at(mx_dataset *dataset, int64_t i)
{
    if (!ok(dataset, "mx_dataset_at"))
        return mx_list_failed();
    if (i < 0 || i >= dataset->length) {
        mx_fail(MX_ERR_INDEX, "mx_dataset_at: example %lld of %lld does not exist", (long long)i,
                (long long)dataset->length);
        return mx_list_failed();
    }
    return dataset->methods->at(dataset, i);
}

static mx_array *join(mx_arrays column, const double *pad)
{
    return pad ? mx_pad_batch(column, .value = *pad) : mx_stack(column, .num_args = column.n);
}

/* Examples one by one, then column k of all of them stacked; pad: fills up smaller ones. */
static mx_arrays join_examples(mx_dataset *dataset, const int64_t *index, int64_t n, const double *pad)
{
    mx_arrays first = dataset->methods->at(dataset, index[0]);
    mx_array **out = first.n ? mx_list_new(first.n) : NULL, **columns = out ? mx_list_new(first.n * n) : NULL;
    if (!columns)
        return mx_list_failed();
    for (int64_t i = 0; i < n; i++) {
        mx_arrays example = i ? dataset->methods->at(dataset, index[i]) : first;
        if (example.n != first.n) {
            mx_fail(MX_ERR_SHAPE, "data set: example %lld has %lld arrays, the first of the batch %lld",
                    (long long)index[i], (long long)example.n, (long long)first.n);
            return mx_list_failed();
        }
        for (int64_t k = 0; k < first.n; k++)
            columns[k * n + i] = example.v[k];
    }
    for (int64_t k = 0; k < first.n; k++)
        if (!(out[k] = join((mx_arrays){columns + k * n, n}, pad)))
            return mx_list_failed();
    return (mx_arrays){out, first.n};
}

mx_arrays mx_dataset_gather(mx_dataset *dataset, const int64_t *index, int64_t n, const double *pad)
{
    if (n < 1)
        return mx_fail(MX_ERR_ARGUMENT, "data set: a batch of %lld examples was requested", (long long)n),
               mx_list_failed();
    if (dataset->methods->gather && !pad)
        return dataset->methods->gather(dataset, index, n);
    return join_examples(dataset, index, n, pad);
}
