/* The library's functions under their usual names, called by the CUDA part through the table that it was given.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "cuda/entry.h"
#include "op/formula/movement.h"

static mx_cuda_library table, *const library = &table;

/* The constant MX_NONE of the headers; set when the library hands over its table. */
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

bool mx_alloc_fails(void) { return library->alloc_fails && library->alloc_fails(); }

/* ---- memory of the host ------------------------------------------------------------------------------------------ */

/* The usual functions, but tests can make them fail (base/alloc.h).  Memory of other libraries may be freed here. */
#ifndef __CUDA_ARCH__
void *operator new(size_t bytes)
{
    void *memory = mx_alloc_fails() ? nullptr : malloc(bytes ? bytes : 1);
    return memory ? memory : throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { free(memory); }
void operator delete(void *memory, size_t) noexcept { free(memory); }
#endif

mx_code mx_cuda_thrown(const char *who)
{
    try {
        throw;
    } catch (const std::bad_alloc &) {
        return mx_fail(MX_ERR_MEMORY, "%s: out of memory on the host", who);
    } catch (const std::exception &what) {
        return mx_fail(MX_ERR_DEVICE, "%s: %s", who, what.what());
    } catch (...) {
        return mx_fail(MX_ERR_DEVICE, "%s: unknown exception", who);
    }
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

#define MOST_KERNELS 2048

/* What the library gets, and what it runs.  The wrapper finds its table entry as the library has just done: it is the
 * operator's k-th kernel. */
struct attached {
    mx_kernel shown;
    mx_kernel_fn run;
};
static attached rows[MOST_KERNELS];
static int row_count;

template <int k> static mx_code enter(const mx_kernel_call *call)
{
    try {
        return ((const attached *)call->op->kernels[MX_GPU][k])->run(call);
    } catch (...) {
        return mx_cuda_thrown(call->op->name);
    }
}

static void attach(const mx_kernel *kernel)
{
    static const mx_kernel_fn entries[MX_MAX_KERNELS] = {enter<0>, enter<1>, enter<2>, enter<3>};
    int k = 0;
    for (int i = 0; i < row_count; i++)
        k += !strcmp(rows[i].shown.op, kernel->op);
    if (row_count == MOST_KERNELS || k >= MX_MAX_KERNELS)
        return library->attach(MX_GPU, kernel); /* as it is */
    attached &row = rows[row_count++];
    row = {*kernel, kernel->run};
    row.shown.run = entries[k];
    library->attach(MX_GPU, &row.shown);
}

/* Every operator has its own entry: the same kernel may be the first of one and the second of another. */
static void attach_movements(const mx_kernel &kernel)
{
    for (int i = 0; const mx_op *op = library->op_at(i); i++)
        if (op->movement && row_count < MOST_KERNELS) {
            const mx_kernel one = {op->name, kernel.run, kernel.workspace};
            attach(&one);
        }
}

/* ---- the library's functions ------------------------------------------------------------------------------------- */

#define FORMATTED(text) \
    char text[1024]; \
    va_list arguments; \
    va_start(arguments, format); \
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
void mx_error_clear(void) { library->error_clear(); }
mx_rng mx_rng_reserve(uint64_t blocks) { return library->rng_reserve(blocks); }
const mx_flags *mx_flags_get(void) { return library->flags(); }
void mx_op_attach(mx_device_type, const mx_kernel *kernel)
{
    return strcmp(kernel->op, MX_ALL_MOVEMENTS) ? attach(kernel) : attach_movements(*kernel);
}
void mx_op_attach_many(mx_device_type device, const char *op, mx_many_fn many)
{
    library->attach_many(device, op, many);
}
void mx_multi_constants(const mx_op *op, const void *attrs, int i, mx_update_constants *k)
{
    library->multi_constants(op, attrs, i, k);
}
mx_array *mx_array_new(const mx_shape_t *shape, mx_dtype dtype, mx_context context)
{
    return library->array_new(shape, dtype, context);
}
bool mx_array_overlap(const mx_array *a, const mx_array *b) { return library->array_overlap(a, b); }
void mx_release(void *object) { library->release(object); }
void mx_parallel_all(int64_t n, int64_t grain, mx_range_fn body, void *arg) { library->parallel(n, grain, body, arg); }
bool mx_stop_possible(void) { return library->stop_possible(); }
mx_code mx_interrupt_check(void) { return library->interrupt_check(); }
}
