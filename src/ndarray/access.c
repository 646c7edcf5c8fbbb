/* Copying complete arrays from and to host memory: read, write, item, fill, set.
 *
 * Arrays in device memory that the host cannot access are staged: copied to the host, changed, copied back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/op.h"
#include "ndarray/array.h"
#include "ndarray/convert.h"
#include "ndarray/dtype.h"
#include "ndarray/sparse.h"

/* ---- checks --------------------------------------------------------------------------------------------- */
static bool has_data(const mx_array *x, const char *function, const char *argument)
{
    if (!mx_array_ok(x, function, argument))
        return false;
    if (!x->storage)
        mx_fail(MX_ERR_STATE, "%s: %s has a shape but no elements: it was made while tracing", function, argument);
    return x->storage != NULL;
}

static bool writable(const mx_array *x, const char *function, const char *argument)
{
    if (!has_data(x, function, argument))
        return false;
    if (x->readonly)
        mx_fail(MX_ERR_STATE, "%s: %s is read-only", function, argument);
    return !x->readonly;
}

static bool bytes_fit(const mx_array *x, const void *memory, size_t bytes, const char *function, const char *argument)
{
    if (bytes != mx_bytes(x))
        mx_fail(MX_ERR_ARGUMENT, "%s: bytes is %zu, but the array has %" PRId64 " elements of %s, that is %zu bytes",
                function, bytes, x->size, mx_dtype_name((mx_dtype)x->dtype), mx_bytes(x));
    else if (!memory && bytes)
        mx_fail(MX_ERR_ARGUMENT, "%s: %s is NULL, wanted memory of %zu bytes", function, argument, bytes);
    else
        return true;
    return false;
}

static bool on_host(const mx_array *x) { return mx_context_is_host(x->storage->context); }

/* ---- copying arrays ------------------------------------------------------------------------------------- */
static mx_code read_bytes(const mx_array *x, void *destination)
{
    const mx_storage *storage = x->storage;
    return x->size ? storage->device->to_host(storage->context, destination, mx_data(x), mx_bytes(x)) : MX_OK;
}

static mx_code write_bytes(mx_array *x, const void *source)
{
    const mx_storage *storage = x->storage;
    const mx_code code =
        x->size ? storage->device->from_host(storage->context, mx_data(x), source, mx_bytes(x)) : MX_OK;
    mx_array_changed(x);
    return code;
}

mx_code mx_array_read(const mx_array *x, void *destination, size_t bytes)
{
    if (!has_data(x, "mx_array_read", "x"))
        return mx_error_code();
    if (!bytes_fit(x, destination, bytes, "mx_array_read", "destination"))
        return MX_ERR_ARGUMENT;
    return read_bytes(x, destination);
}

mx_code mx_array_write(mx_array *x, const void *source, size_t bytes)
{
    if (!writable(x, "mx_array_write", "x"))
        return mx_error_code();
    if (!bytes_fit(x, source, bytes, "mx_array_write", "source"))
        return MX_ERR_ARGUMENT;
    return write_bytes(x, source);
}

void mx_array_wait(const mx_array *x)
{
    if (mx_array_any_ok(x, "mx_array_wait", "x") && x->storage)
        x->storage->device->wait(x->storage->context);
}

void *mx_array_data(mx_array *x)
{
    char text[32];
    if (!has_data(x, "mx_array_data", "x"))
        return NULL;
    if (!on_host(x))
        return mx_fail_null(MX_ERR_DEVICE,
                            "mx_array_data: x is on %s; only arrays on the CPU have a host address, "
                            "use mx_array_read",
                            mx_context_text(x->context, text));
    x->storage->device->wait(x->storage->context);
    mx_array_expose(x);
    return mx_data(x);
}

/* Elements in host memory: the array's own or a staged copy, which is then in *stage (free it with mx_bytes(x)). */
static void *host_elements(const mx_array *x, void **stage)
{
    *stage = NULL;
    if (on_host(x)) {
        x->storage->device->wait(x->storage->context);
        return mx_data(x);
    }
    *stage = mx_alloc(mx_bytes(x));
    if (*stage && read_bytes(x, *stage)) {
        mx_free(*stage, mx_bytes(x));
        *stage = NULL;
    }
    return *stage;
}

mx_code mx_array_read_doubles(const mx_array *x, double *destination, int64_t count)
{
    if (!has_data(x, "mx_array_read_doubles", "x"))
        return mx_error_code();
    if (count != x->size || (!destination && count))
        return mx_fail(MX_ERR_ARGUMENT, "mx_array_read_doubles: %s; x has %" PRId64 " elements, count is %" PRId64,
                       destination ? "wrong count" : "destination is NULL", x->size, count);
    if (count == 0)
        return MX_OK;
    void *stage;
    const void *elements = host_elements(x, &stage);
    if (!elements)
        return mx_error_code();
    mx_convert(destination, MX_FLOAT64, elements, (mx_dtype)x->dtype, count);
    mx_free(stage, mx_bytes(x));
    return MX_OK;
}

double mx_item(const mx_array *x)
{
    char text[MX_SHAPE_TEXT];
    double value = NAN;
    uint64_t element = 0;
    if (!has_data(x, "mx_item", "x"))
        return value;
    if (x->size != 1) {
        mx_dims shape = mx_shape(x);
        mx_fail(MX_ERR_SHAPE, "mx_item: x has shape %s, wanted an array of one element", mx_dims_text(&shape, text));
    } else if (!read_bytes(x, &element)) {
        mx_convert(&value, MX_FLOAT64, &element, (mx_dtype)x->dtype, 1);
    }
    return value;
}

/* ---- fill and set --------------------------------------------------------------------------------------- */
/* Repeats the first `unit` bytes of `memory` until `total` bytes are filled, doubling the filled part. */
static void repeat(char *memory, size_t unit, size_t total)
{
    for (size_t done = unit; done < total;) {
        size_t part = done < total - done ? done : total - done;
        part = part > 65536 && unit <= 65536 ? 65536 / unit * unit : part; /* copy from cache, not from memory */
        part = part < total - done ? part : total - done;
        memcpy(memory + done, memory, part);
        done += part;
    }
}

static void fill_memory(void *memory, mx_dtype dtype, double value, int64_t n)
{
    size_t item = (size_t)mx_dtype_size(dtype);
    mx_convert(memory, dtype, &value, MX_FLOAT64, 1);
    uint64_t first = 0;
    memcpy(&first, memory, item);
    if (first == 0)
        memset(memory, 0, (size_t)n * item);
    else
        repeat(memory, item, (size_t)n * item);
}

static mx_code fill_there(mx_array *x, double value)
{
    uint64_t element = 0;
    const mx_storage *storage = x->storage;
    mx_convert(&element, (mx_dtype)x->dtype, &value, MX_FLOAT64, 1);
    const mx_code code = storage->device->fill(storage->context, mx_data(x), &element,
                                               (size_t)mx_dtype_size((mx_dtype)x->dtype), x->size);
    mx_array_changed(x);
    return code;
}

mx_code mx_array_fill(mx_array *x, double value)
{
    if (!writable(x, "mx_array_fill", "x"))
        return mx_error_code();
    if (x->size == 0)
        return MX_OK;
    if (on_host(x)) {
        x->storage->device->wait(x->storage->context);
        fill_memory(mx_data(x), (mx_dtype)x->dtype, value, x->size);
        mx_array_changed(x);
        return MX_OK;
    }
    if (x->storage->device->fill)
        return fill_there(x, value);
    void *stage = mx_alloc(mx_bytes(x));
    if (!stage)
        return MX_ERR_MEMORY;
    fill_memory(stage, (mx_dtype)x->dtype, value, x->size);
    mx_code code = write_bytes(x, stage);
    mx_free(stage, mx_bytes(x));
    return code;
}

typedef struct {
    int ndim;
    int64_t to[MX_MAX_NDIM];                                       /* sizes of the target's axes */
    int64_t from[MX_MAX_NDIM];                                     /* sizes of the source's: the same or 1 */
    size_t to_bytes[MX_MAX_NDIM + 1], from_bytes[MX_MAX_NDIM + 1]; /* of everything from this axis on */
} broadcast;

/* Aligns value's axes with x's; false if they do not fit.  Leading axes of size 1 that x lacks are dropped. */
static bool plan_broadcast(const mx_array *x, const mx_array *value, broadcast *plan)
{
    int extra = value->ndim - x->ndim;
    for (int i = 0; i < extra; i++)
        if (value->shape[i] != 1)
            return false;
    plan->ndim = x->ndim;
    plan->to_bytes[x->ndim] = plan->from_bytes[x->ndim] = (size_t)mx_dtype_size((mx_dtype)x->dtype);
    for (int i = x->ndim - 1; i >= 0; i--) {
        int64_t from = i + extra >= 0 ? value->shape[i + extra] : 1;
        if (from != x->shape[i] && from != 1)
            return false;
        plan->to[i] = x->shape[i];
        plan->from[i] = from;
        plan->to_bytes[i] = plan->to_bytes[i + 1] * (size_t)plan->to[i];
        plan->from_bytes[i] = plan->from_bytes[i + 1] * (size_t)from;
    }
    return true;
}

static void run_broadcast(const broadcast *plan, int axis, char *to, const char *from)
{
    if (plan->to_bytes[axis] == plan->from_bytes[axis]) {
        memcpy(to, from, plan->to_bytes[axis]);
        return;
    }
    for (int64_t i = 0; i < plan->from[axis]; i++)
        run_broadcast(plan, axis + 1, to + (size_t)i * plan->to_bytes[axis + 1],
                      from + (size_t)i * plan->from_bytes[axis + 1]);
    if (plan->from[axis] == 1)
        repeat(to, plan->to_bytes[axis + 1], plan->to_bytes[axis]);
}

/* value's elements converted to x's type, in new host memory, (value->size). */
static void *converted(const mx_array *x, const mx_array *value)
{
    void *stage, *result = NULL;
    const void *elements = host_elements(value, &stage);
    if (elements)
        result = mx_alloc((size_t)value->size * (size_t)mx_dtype_size((mx_dtype)x->dtype));
    if (result)
        mx_convert(result, (mx_dtype)x->dtype, elements, (mx_dtype)value->dtype, value->size);
    mx_free(stage, mx_bytes(value));
    return result;
}

static mx_code set_converted(mx_array *x, const mx_array *value, const broadcast *plan)
{
    size_t value_bytes = (size_t)value->size * (size_t)mx_dtype_size((mx_dtype)x->dtype);
    char *elements = converted(x, value), *target = NULL;
    mx_code code = MX_ERR_MEMORY;
    if (elements)
        target = on_host(x) ? mx_data(x) : mx_alloc(mx_bytes(x));
    if (target) {
        run_broadcast(plan, 0, target, elements);
        code = on_host(x) ? MX_OK : write_bytes(x, target);
        mx_array_changed(x);
    }
    if (target && !on_host(x))
        mx_free(target, mx_bytes(x));
    mx_free(elements, value_bytes);
    return code;
}

/* The same with operators on x's device: nothing is copied to the host unless value or x is there. */
static mx_code set_there(mx_array *x, mx_array *value, const broadcast *plan)
{
    MX_SCOPE;
    mx_array *out[1] = {NULL};
    mx_shape_t shape = {.ndim = x->ndim}, to = mx_array_shape(x);
    for (int i = 0; i < x->ndim; i++)
        shape.dim[i] = plan->from[i];
    mx_array *there = mx_array_overlap(x, value) ? mx_array_copy(value) : mx_array_to(value, x->context);
    mx_array *view = there ? mx_scope_add(mx_array_view(there, 0, &shape, (mx_dtype)there->dtype)) : NULL;
    mx_dims dims = mx_dims_of_shape(&to);
    const mx_dtype type = (mx_dtype)x->dtype;
    if (view && view->dtype != x->dtype && !mx_invoke(mx_op_find("Cast"), &type, 1, &view, 1, out))
        view = out[0];
    if (!view || view->dtype != x->dtype)
        return mx_error_code();
    if (view->size == x->size)
        return mx_array_copy_data(x, view);
    out[0] = NULL;
    return mx_invoke(mx_op_find("_broadcast_to"), &dims, 1, &view, 1, out) ? mx_error_code()
                                                                           : mx_array_copy_data(x, out[0]);
}

mx_code mx_array_set(mx_array *x, mx_array *value)
{
    if (mx_stype_of(x) != MX_STYPE_DEFAULT || mx_stype_of(value) != MX_STYPE_DEFAULT)
        return mx_sparse_assign(x, value);
    char text[MX_SHAPE_TEXT], wanted[MX_SHAPE_TEXT];
    broadcast plan;
    if (!writable(x, "mx_array_set", "x") || !has_data(value, "mx_array_set", "value"))
        return mx_error_code();
    if (!plan_broadcast(x, value, &plan)) {
        mx_dims came = mx_shape(value), shape = mx_shape(x);
        return mx_fail(MX_ERR_SHAPE, "mx_array_set: value has shape %s, which does not broadcast to %s",
                       mx_dims_text(&came, text), mx_dims_text(&shape, wanted));
    }
    if (x->size == 0)
        return MX_OK;
    bool same = x->dtype == value->dtype && x->size == value->size;
    if (same && mx_array_overlap(x, value) && mx_data(x) == mx_data(value))
        return MX_OK;
    if (same && !mx_array_overlap(x, value))
        return mx_array_copy_data(x, value);
    const mx_device *device = (on_host(x) ? value : x)->storage->device;
    return device->fill ? set_there(x, value, &plan) : set_converted(x, value, &plan);
}
