/* Contexts: which device an array lives on, and the table of devices.
 *
 * Pinned and shared host memory are plain host memory in a build without a GPU.  Any cpu id is legal: cpu(0) and
 * cpu(1) are different names for the same memory, which lets programs for several devices run on one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ndarray/device.h"

#include <stdio.h>

#include "base/error.h"

#define DEVICE_TYPES 6

/* By mx_device_type; the entries point to constants that other files define. */
static mx_device *const *const devices[DEVICE_TYPES] = {
    [MX_CPU] = &mx_cpu_device,
    [MX_CPU_PINNED] = &mx_cpu_device,
    [MX_CPU_SHARED] = &mx_cpu_device,
};

static const char *const type_names[DEVICE_TYPES] = {
    [MX_CPU] = "cpu", [MX_GPU] = "gpu", [MX_CPU_PINNED] = "cpu_pinned", [MX_CPU_SHARED] = "cpu_shared",
};

static _Thread_local mx_context current = {MX_CPU, 0};

static bool type_known(int32_t type) { return type > 0 && type < DEVICE_TYPES && type_names[type]; }

mx_context mx_context_resolve(mx_context context) { return context.type ? context : current; }

mx_context mx_current_context(void) { return current; }

mx_context mx_set_current_context(mx_context context)
{
    mx_context previous = current;
    if (!context.type)
        return previous;
    if (!type_known(context.type) || context.id < 0)
        mx_fail(MX_ERR_DEVICE, "mx_set_current_context: there is no device of type %d with id %d", (int)context.type,
                (int)context.id);
    else
        current = context;
    return previous;
}

int mx_num_gpus(void) { return 0; }

void mx_wait_all(void) { mx_cpu_device->wait(mx_cpu(0)); }

mx_device *mx_device_of(mx_context context, const char *who)
{
    char text[32];
    context = mx_context_resolve(context);
    if (!type_known(context.type) || context.id < 0)
        return mx_fail_null(MX_ERR_DEVICE, "%s: there is no device of type %d with id %d", who, (int)context.type,
                            (int)context.id);
    if (!devices[context.type])
        return mx_fail_null(MX_ERR_DEVICE, "%s: %s was asked for, but this build has no GPU support; use cpu(0)", who,
                            mx_context_text(context, text));
    return *devices[context.type];
}

const char *mx_context_text(mx_context context, char buffer[32])
{
    const char *name = type_known(context.type) ? type_names[context.type] : context.type ? "unknown" : "current";
    snprintf(buffer, 32, "%s(%d)", name, (int)context.id);
    return buffer;
}
