/* Checks of our own invariants, in debug and sanitizer builds.
 *
 *     MX_ASSERT(count > 0, "%s is released once more than it was retained", name);
 *
 * One that fails is a bug of the library: it prints where and why, and ends the process.  What a caller can do wrong is an
 * error (error.h) and never an assertion.  In release builds the condition is compiled, so that it stays true to the
 * code, but not run.  MX_CHECKED is 1 where they run: for functions that only check.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_ASSERT_H
#define MX_BASE_ASSERT_H

#include "gluon/base.h"

#if defined(__CUDACC__) /* the CUDA part reaches the library through a table alone (cuda/plugin.h) */
#define MX_CHECKED 0
#elif !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MX_CHECKED 1
#else
#define MX_CHECKED 0
#endif

#if MX_CHECKED
#define MX_ASSERT(condition, ...) \
    ((condition) ? (void)0 : mx_assert_failed(__FILE__, __LINE__, #condition, __VA_ARGS__))
__attribute__((noreturn)) void mx_assert_failed(const char *file, int line, const char *condition, const char *format,
                                                ...) MX_PRINTF(4, 5);
#else
#define MX_ASSERT(condition, ...) ((void)sizeof((condition) ? 1 : 0))
#endif

#endif
