/* Writing memory that will not be read soon.
 *
 * A normal store first reads the line that it writes.  Results far larger than the caches are written past them
 * instead: computed in tiles that stay in the first-level cache, then streamed out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_STREAM_H
#define MX_CPU_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define MX_STREAM_BYTES ((int64_t)16 << 20) /* results of this size are streamed */
#define MX_STREAM_TILE 2048                 /* bytes computed at a time */

/* Copies past the caches.  Call mx_stream_end() before other threads read the destination. */
static inline void mx_stream(void *to_, const void *from_, size_t bytes)
{
    char *to = to_;
    const char *from = from_;
#if defined(__SSE2__)
    const size_t lead = (size_t)(-(uintptr_t)to & 63), head = lead < bytes ? lead : bytes;
    memcpy(to, from, head);
    to += head, from += head, bytes -= head;
    for (; bytes >= 64; to += 64, from += 64, bytes -= 64) {
#if defined(__AVX512F__)
        _mm512_stream_si512((void *)to, _mm512_loadu_si512((const void *)from));
#elif defined(__AVX__)
        _mm256_stream_si256((__m256i *)(void *)to, _mm256_loadu_si256((const __m256i *)(const void *)from));
        _mm256_stream_si256((__m256i *)(void *)to + 1, _mm256_loadu_si256((const __m256i *)(const void *)from + 1));
#else
        for (int k = 0; k < 4; k++)
            _mm_stream_si128((__m128i *)(void *)to + k, _mm_loadu_si128((const __m128i *)(const void *)from + k));
#endif
    }
#endif
    memcpy(to, from, bytes);
}

static inline void mx_stream_end(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

#endif
