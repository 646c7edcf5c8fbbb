/* Scratch memory (see scratch.h).  SPDX-License-Identifier: Apache-2.0 */
#include "base/scratch.h"

#include <string.h>

#include "base/thread.h"
#include "base/assert.h"
#include "base/error.h"

static size_t rounded(size_t bytes) { return (bytes + MX_ALIGN - 1) / MX_ALIGN * MX_ALIGN; }

static bool inside(const mx_scratch *s, const void *memory)
{
    return (const char *)memory >= s->memory && (const char *)memory < s->memory + s->bytes;
}

void *mx_scratch_take(size_t bytes)
{
    mx_scratch *s = mx_thread.scratch;
    if (!s || bytes > SIZE_MAX / 4)
        return mx_alloc(bytes);
    const size_t at = s->used;
    void *memory = at + rounded(bytes) < s->bytes ? s->memory + at : mx_alloc(bytes);
    if (!memory)
        return NULL;
    s->used = at + rounded(bytes);
    s->wanted = s->used > s->wanted ? s->used : s->wanted;
    s->live++;
    return memory;
}

void *mx_scratch_take_zero(size_t bytes)
{
    void *memory = mx_scratch_take(bytes);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

void mx_scratch_give(void *memory, size_t bytes)
{
    mx_scratch *s = mx_thread.scratch;
    if (!memory)
        return;
    if (!s || bytes > SIZE_MAX / 4) {
        mx_free(memory, bytes);
        return;
    }
    MX_ASSERT(s->live > 0, "scratch memory is given back twice");
    if (!inside(s, memory))
        mx_free(memory, bytes);
    else if ((char *)memory + rounded(bytes) == s->memory + s->used)
        s->used -= rounded(bytes);
    if (!--s->live)
        s->used = 0;
}

mx_scratch *mx_scratch_enter(mx_scratch *own)
{
    mx_scratch *previous = mx_thread.scratch;
    mx_thread.scratch = own;
    return previous;
}

/* A reserve that could not grow is not an error: the next call uses the allocator again. */
void mx_scratch_leave(mx_scratch *own, mx_scratch *previous)
{
    MX_ASSERT(mx_thread.scratch == own, "scratch memory is left in another order than it was entered");
    mx_thread.scratch = previous;
    own->used = 0;
    own->live = 0;
    if (own->wanted < own->bytes || !own->wanted)
        return;
    const bool clean = !mx_has_error();
    const size_t bytes = own->wanted + MX_ALIGN;
    mx_scratch_free(own);
    own->memory = mx_alloc(bytes);
    own->bytes = own->memory ? bytes : 0;
    if (!own->memory && clean)
        mx_error_clear();
}

void mx_scratch_free(mx_scratch *own)
{
    mx_free(own->memory, own->bytes);
    own->memory = NULL;
    own->bytes = 0;
}
