/* Finding and opening the CUDA part at the first use of a GPU.
 *
 * Searched: GLUON_CUDA_LIBRARY, then near the file that holds this code (a library, the Python module, the gluon command: the
 * wheel and the install tree have the part in lib/), then the system's library path.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "cuda/plugin.h"
#include "ndarray/lane.h"
#include "op/formula/multi_optimizer.h"

#define FILE_NAME "libgluon_cuda.so"

static const char absence[] = "the file " FILE_NAME " is missing (it is built if nvcc is found)";
static mx_device *device;
static const mx_lanes *lanes;
static char reason[512]; /* why there is no device */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *open_near_us(void)
{
    static const char *const folders[] = {"", "lib/", "../lib/"};
    Dl_info self;
    char path[4096];
    const char *slash =
        dladdr((void *)(uintptr_t)absence, &self) && self.dli_fname ? strrchr(self.dli_fname, '/') : NULL;
    for (size_t i = 0; slash && i < sizeof folders / sizeof *folders; i++) {
        const int length =
            snprintf(path, sizeof path, "%.*s/%s" FILE_NAME, (int)(slash - self.dli_fname), self.dli_fname, folders[i]);
        /* A file that is there but cannot be opened is the answer: the reason is the loader's. */
        if (length > 0 && (size_t)length < sizeof path && access(path, F_OK) == 0)
            return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
}

static void *open_part(void)
{
    const char *named = mx_flags_get()->cuda_library;
    if (*named)
        return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    return open_near_us();
}

/* The message of the loader names the file; a missing file gets a clearer one. */
static void explain_failure(void)
{
    const char *text = dlerror();
    snprintf(reason, sizeof reason, "%s", !text || strstr(text, FILE_NAME ": cannot open") ? absence : text);
}

static void load(void)
{
    const mx_cuda_library library = {
        .border = MX_CUDA_BORDER, .none = MX_NONE, .error_set = mx_error_set, .op_fail = mx_op_fail, .error_code = mx_error_code,
        .error_clear = mx_error_clear,
        .op_at = mx_op_at, .attach = mx_op_attach, .attach_many = mx_op_attach_many, .multi_constants = mx_multi_constants,
        .rng_reserve = mx_rng_reserve, .flags = mx_flags_get, .array_new = mx_array_new,
        .array_overlap = mx_array_overlap, .release = mx_release, .parallel = mx_parallel_all,
        .alloc_fails = mx_alloc_fails, .stop_possible = mx_stop_possible, .interrupt_check = mx_interrupt_check};
    void *part = open_part();
    if (!part) {
        explain_failure();
        return;
    }
    mx_cuda_open_fn open = (mx_cuda_open_fn)(uintptr_t)dlsym(part, MX_CUDA_OPEN);
    const bool clean = !mx_has_error();
    device = open ? open(&library) : NULL;
    mx_cuda_lanes_fn find_lanes = device ? (mx_cuda_lanes_fn)(uintptr_t)dlsym(part, MX_CUDA_FIND_LANES) : NULL;
    lanes = find_lanes ? find_lanes() : NULL;
    if (device)
        return;
    snprintf(reason, sizeof reason, "%s",
             open && clean && mx_has_error() ? mx_error_message()
                                             : FILE_NAME " belongs to another version of the library");
    if (clean)
        mx_error_clear();
}

mx_device *mx_gpu_device(const char **why)
{
    pthread_once(&once, load);
    *why = reason;
    return device;
}

const mx_lanes *mx_gpu_lanes(void)
{
    pthread_once(&once, load);
    return lanes;
}
