/* Sums of arrays on several devices: by the devices themselves if they can, else by copies to the first
 * one.
 *
 * Copies are added in the order of the list, so that the result does not depend on timing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "exec/device_sum.h"

#include "base/error.h"
#include "exec/call.h"
#include "ndarray/array.h"

#define MOST 64 /* devices in one sum */

static mx_code check(int n, mx_array *const *arrays)
{
    if (n < 1)
        return mx_fail(MX_ERR_ARGUMENT, "sum over devices: there are no arrays");
    for (int i = 0; i < n; i++) {
        if (!mx_array_ok(arrays[i], "sum over devices", "an array"))
            return mx_error_code();
        if (!arrays[i]->storage)
            return mx_fail(MX_ERR_STATE, "sum over devices: array %d has no elements: it was made while tracing", i);
        if (arrays[i]->dtype != arrays[0]->dtype || arrays[i]->size != arrays[0]->size)
            return mx_fail(MX_ERR_SHAPE, "sum over devices: array %d differs from the first in shape or type", i);
    }
    return MX_OK;
}

/* The device that can sum these: all of them are on different devices of one type. */
static mx_device *adder(int n, mx_array *const *arrays)
{
    mx_device *device = arrays[0]->storage->device;
    if (!device->all_reduce || n > MOST)
        return NULL;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (arrays[i]->storage->device != device || arrays[i]->context.id == arrays[k]->context.id)
                return NULL;
    return device;
}

/* to: (n) what the devices write; only to[0] if the others are NULL. */
static mx_code by_devices(mx_device *device, int n, mx_array *const *from, mx_array *const *to)
{
    mx_context contexts[MOST] = {{0, 0}};
    const void *sources[MOST] = {NULL};
    void *targets[MOST] = {NULL};
    for (int i = 0; i < n; i++) {
        contexts[i] = from[i]->context;
        sources[i] = mx_data(from[i]);
        targets[i] = to[i] ? mx_data(to[i]) : NULL;
    }
    const mx_code code = device->all_reduce(n, contexts, sources, targets, from[0]->size, (mx_dtype)from[0]->dtype);
    for (int i = 0; i < n && !code; i++)
        if (to[i])
            mx_array_changed(to[i]);
    return code;
}

static mx_code by_copies(mx_array *sum, int n, mx_array *const *parts)
{
    MX_SCOPE;
    mx_code code = sum == parts[0] ? MX_OK : mx_array_copy_data(sum, parts[0]);
    for (int i = 1; !code && i < n; i++) {
        mx_array *there = mx_array_to(parts[i], sum->context);
        if (!there || !mx_call_one(MX_OP("elemwise_add"), NULL, 2, (mx_array *const[]){sum, there}, sum))
            code = mx_error_code();
    }
    return code;
}

mx_code mx_reduce_arrays(mx_array *sum, int n, mx_array *const *parts)
{
    if (check(n, parts) || check(1, &sum))
        return mx_error_code();
    if (!sum->size)
        return MX_OK;
    mx_array *to[MOST] = {sum};
    mx_device *device = n > 1 ? adder(n, parts) : NULL;
    const mx_code code = device ? by_devices(device, n, parts, to) : MX_DECLINED;
    return code == MX_DECLINED ? by_copies(sum, n, parts) : code;
}

mx_code mx_all_reduce_arrays(int n, mx_array *const *arrays)
{
    if (check(n, arrays))
        return mx_error_code();
    if (!arrays[0]->size)
        return MX_OK;
    mx_device *device = adder(n, arrays);
    mx_code code = device ? by_devices(device, n, arrays, arrays) : MX_DECLINED;
    if (code != MX_DECLINED)
        return code;
    code = by_copies(arrays[0], n, arrays);
    for (int i = 1; !code && i < n; i++)
        code = mx_array_copy_data(arrays[i], arrays[0]);
    return code;
}
