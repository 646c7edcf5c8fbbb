/* Contexts: which device an array is on, and the table of devices.
 *
 * Pinned host memory is allocated by the GPU (cpu/device.c), shared memory is ordinary memory.  Any cpu id is valid:
 * cpu(0) and cpu(1) are different names for the same memory, which lets programs for several devices run on one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ndarray/device.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/thread.h"
#include "base/error.h"
#include "gluon/device.h"

#define DEVICE_TYPES 6

static const char *const type_names[DEVICE_TYPES] = {
    [MX_CPU] = "cpu",
    [MX_GPU] = "gpu",
    [MX_CPU_PINNED] = "cpu_pinned",
    [MX_CPU_SHARED] = "cpu_shared",
};

static bool type_known(int32_t type) { return type > 0 && type < DEVICE_TYPES && type_names[type]; }

mx_context mx_context_resolve(mx_context context) { return context.type ? context : mx_thread.context; }

mx_context mx_current_context(void) { return mx_thread.context; }

mx_context mx_set_current_context(mx_context context)
{
    mx_context previous = mx_thread.context;
    if (!context.type)
        return previous;
    if (!type_known(context.type) || context.id < 0)
        mx_fail(MX_ERR_DEVICE, "mx_set_current_context: there is no device of type %d with id %d", (int)context.type,
                (int)context.id);
    else
        mx_thread.context = context;
    return previous;
}

int mx_num_gpus(void)
{
    const char *why;
    mx_device *gpu = mx_gpu_device(&why);
    return gpu ? gpu->count() : 0;
}

static _Atomic(uint64_t) gpus_used; /* bit i: gpu(i) was used; waiting must not start another one */

void mx_wait_all(void)
{
    mx_cpu_device->wait(mx_cpu(0));
    const char *why;
    const uint64_t used = atomic_load(&gpus_used);
    for (int i = 0; i < 64; i++)
        if (used >> i & 1)
            mx_gpu_device(&why)->wait(mx_gpu(i));
}

static mx_device *gpu_of(mx_context context, const char *who)
{
    char text[32];
    const char *why;
    mx_device *gpu = mx_gpu_device(&why);
    if (!gpu)
        return mx_fail_null(MX_ERR_DEVICE, "%s: %s was requested, but there is no usable GPU: %s; use cpu(0)", who,
                            mx_context_text(context, text), why);
    if (context.id >= gpu->count())
        return mx_fail_null(MX_ERR_DEVICE, "%s: %s was requested, but this machine has %d GPU(s), from gpu(0) on", who,
                            mx_context_text(context, text), gpu->count());
    const uint64_t bit = (uint64_t)1 << (context.id & 63);
    if (!(atomic_load_explicit(&gpus_used, memory_order_relaxed) & bit))
        atomic_fetch_or(&gpus_used, bit);
    return gpu;
}

mx_device *mx_device_of(mx_context context, const char *who)
{
    context = mx_context_resolve(context);
    if (!type_known(context.type) || context.id < 0)
        return mx_fail_null(MX_ERR_DEVICE, "%s: there is no device of type %d with id %d", who, (int)context.type,
                            (int)context.id);
    return context.type == MX_GPU ? gpu_of(context, who) : mx_cpu_device;
}

mx_code mx_memory_info(mx_context context, size_t *unused, size_t *all)
{
    mx_device *device = mx_device_of(context, "mx_memory_info");
    if (!device)
        return mx_error_code();
    if (!unused || !all)
        return mx_fail(MX_ERR_ARGUMENT, "mx_memory_info: %s is NULL", unused ? "all" : "unused");
    if (!device->memory_info)
        return mx_fail(MX_ERR_UNSUPPORTED, "mx_memory_info: the size of the memory of a %s is unknown", device->name);
    return device->memory_info(mx_context_resolve(context), unused, all);
}

mx_code mx_memory_used(mx_context context, size_t *now, size_t *most)
{
    mx_device *device = mx_device_of(context, "mx_memory_used");
    if (!device)
        return mx_error_code();
    if (!now || !most)
        return mx_fail(MX_ERR_ARGUMENT, "mx_memory_used: %s is NULL", now ? "most" : "now");
    if (!device->memory_used)
        return mx_fail(MX_ERR_UNSUPPORTED, "mx_memory_used: the memory use of a %s is not counted", device->name);
    return device->memory_used(mx_context_resolve(context), now, most);
}

mx_code mx_empty_cache(mx_context context)
{
    mx_device *device = mx_device_of(context, "mx_empty_cache");
    if (device && device->empty_cache)
        device->empty_cache(mx_context_resolve(context));
    return device ? MX_OK : mx_error_code();
}

const char *mx_context_text(mx_context context, char buffer[32])
{
    const char *name = type_known(context.type) ? type_names[context.type] : context.type ? "unknown" : "current";
    snprintf(buffer, 32, "%s(%d)", name, (int)context.id);
    return buffer;
}
