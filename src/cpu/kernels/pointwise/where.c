/* where: by tiles of conditions.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/convert_level.h"

#define TILE 512 /* conditions converted at a time */

typedef struct where_job {
    const char *condition, *x, *y;
    char *out;
    mx_dtype condition_type;
    int64_t condition_item, item; /* bytes */
    int64_t row;                  /* elements per condition */
} where_job;

#define CHOOSE(type)                                                                                      \
    {                                                                                                     \
        const type *x = (const type *)(const void *)(j->x + at), *y = (const type *)(const void *)(j->y + at); \
        type *out = (type *)(void *)(j->out + at);                                                        \
        MX_IVDEP for (int64_t i = 0; i < n; i++) out[i] = choice[i] ? x[i] : y[i];                        \
    }                                                                                                     \
    break;

static void choose(const where_job *j, const uint8_t *choice, int64_t first, int64_t n)
{
    const int64_t at = first * j->item;
    switch (j->item) {
    case 1: CHOOSE(uint8_t)
    case 2: CHOOSE(uint16_t)
    case 4: CHOOSE(uint32_t)
    default: CHOOSE(uint64_t)
    }
}

/* Conditions [begin, end) of the job. */
static void where_part(void *arg, int64_t begin, int64_t end)
{
    const where_job *j = arg;
    uint8_t choice[TILE];
    for (; begin < end; begin += TILE) {
        const int64_t n = end - begin < TILE ? end - begin : TILE;
        mx_convert_fast(choice, MX_BOOL, j->condition + begin * j->condition_item, j->condition_type, n);
        if (j->row == 1) {
            choose(j, choice, begin, n);
            continue;
        }
        for (int64_t r = 0; r < n; r++) {
            const int64_t at = (begin + r) * j->row * j->item;
            memcpy(j->out + at, (choice[r] ? j->x : j->y) + at, (size_t)(j->row * j->item));
        }
    }
}

static mx_code run_where(const mx_kernel_call *call)
{
    const mx_array *condition = call->in[0], *out = call->out[0];
    where_job j = {mx_data(condition), mx_data(call->in[1]), mx_data(call->in[2]), mx_data(out),
                   (mx_dtype)condition->dtype,
                   mx_dtype_size((mx_dtype)condition->dtype), mx_dtype_size((mx_dtype)out->dtype), 1};
    if (!out->size)
        return MX_OK;
    j.row = out->size / condition->size;
    mx_parallel(condition->size, j.row < MX_GRAIN ? MX_GRAIN / j.row : 1, where_part, &j);
    return MX_OK;
}

MX_CPU_KERNELS(where) = {{"where", run_where, NULL}, {NULL, NULL, NULL}};
