/* The library's functions as the CUDA part calls them: by their usual names, through the table that it was given.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cstdarg>
#include <cstdio>

#include "cuda/cuda.h"

static mx_cuda_library table, *const library = &table;

/* The constant MX_NONE of the headers; its value is known when the library has introduced itself. */
extern "C" mx_array *mx_cuda_none __asm__("MX_NONE");
mx_array *mx_cuda_none;

bool mx_cuda_meet(const mx_cuda_library *given)
{
    if (given->border != MX_CUDA_BORDER)
        return false;
    table = *given;
    mx_cuda_none = given->none;
    return true;
}

#define FORMATTED(text)                            \
    char text[1024];                               \
    va_list arguments;                             \
    va_start(arguments, format);                   \
    vsnprintf(text, sizeof text, format, arguments); \
    va_end(arguments)

extern "C" {

mx_code mx_error_set(mx_code code, const char *format, ...)
{
    FORMATTED(text);
    return library->error_set(code, "%s", text);
}

mx_code mx_op_fail(const mx_op *op, mx_code code, const char *format, ...)
{
    FORMATTED(text);
    return library->op_fail(op, code, "%s", text);
}

mx_code mx_error_code(void) { return library->error_code(); }
mx_rng mx_rng_reserve(uint64_t blocks) { return library->rng_reserve(blocks); }
const mx_flags *mx_flags_get(void) { return library->flags(); }
void mx_op_attach(mx_device_type device, const mx_kernel *kernel) { library->attach(device, kernel); }
void mx_op_attach_many(mx_device_type device, const char *op, mx_many_fn many) { library->attach_many(device, op, many); }
void mx_multi_constants(const mx_op *op, const void *attrs, int i, mx_update *k)
{
    library->multi_constants(op, attrs, i, k);
}
mx_array *mx_array_new(const mx_shape_t *shape, mx_dtype dtype, mx_context context)
{
    return library->array_new(shape, dtype, context);
}
bool mx_array_overlap(const mx_array *a, const mx_array *b) { return library->array_overlap(a, b); }
void mx_release(void *object) { library->release(object); }
void mx_parallel(int64_t n, int64_t grain, mx_range_fn body, void *arg) { library->parallel(n, grain, body, arg); }
}
