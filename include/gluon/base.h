/* What every part of Gluon shares: errors, object lifetime, scopes, dims.
 *
 * Errors flow.  A function that fails returns NULL (or a nonzero code) and leaves a record in the calling
 * thread.  NULL inputs propagate silently, so expressions nest and are checked once, with mx_check().
 * The first error stays until it is cleared: later ones are usually its consequences.
 *
 * Scopes own temporaries.  What a function returns belongs to the innermost open scope of the thread.
 * mx_keep() takes a reference that outlives the scope; mx_release() drops it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_BASE_H
#define GLUON_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MX_API __attribute__((visibility("default")))

#if defined(__GNUC__)
#define MX_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define MX_PRINTF(fmt, args)
#endif

/* Named optional arguments: defaults come first, later designators override them on purpose.  A pointer of another kind
 * (a block for an array) is an error, as in the newest compilers. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Winitializer-overrides"
#pragma clang diagnostic error "-Wincompatible-pointer-types"
#pragma clang diagnostic error "-Wint-conversion"
#elif defined(__GNUC__) && !defined(__cplusplus)
#pragma GCC diagnostic ignored "-Woverride-init"
#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#pragma GCC diagnostic error "-Wint-conversion"
#endif

/* 0; where `text`, the arguments of a macro, is empty, the compiler prints the message.  Macros pass their own #__VA_ARGS__:
 * that of an inner macro would be the text after expansion, which doubles with every nested call. */
#ifdef __cplusplus
#define MX_NOT_EMPTY(text, message) 0
#else
#define MX_NOT_EMPTY(text, message) (0 * (int)sizeof(struct { int one; _Static_assert(sizeof(text) > 1, message); }))
#endif

/* ---- version ------------------------------------------------------------------------------------------- */
#define MX_VERSION_MAJOR 0
#define MX_VERSION_MINOR 1
#define MX_VERSION_PATCH 0
MX_API const char *mx_version(void); /* "0.1.0" */

/* ---- dims: a small tuple of sizes ----------------------------------------------------------------------- */
#define MX_MAX_NDIM 8      /* axes of an array */
#define MX_MAX_TUPLE 16    /* numbers in an attribute tuple (reshape codes can outnumber the axes) */
#define MX_NONE_INT INT64_MIN /* Python's None in place of an integer */
#define MX_NONE_FLOAT ((double)__builtin_nanf("")) /* and of a floating-point number */

typedef struct mx_dims {
    int32_t n;               /* how many numbers; -1: None (not given) */
    int64_t d[MX_MAX_TUPLE]; /* the numbers; MX_NONE_INT inside a slice means "not given" */
} mx_dims;

typedef struct mx_floats {
    int32_t n; /* how many numbers; -1: None */
    double d[MX_MAX_TUPLE];
} mx_floats;

#define MX_COUNT_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, N, ...) N
#define MX_COUNT(...) MX_COUNT_(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define MX_DIMS(...)                                                                                        \
    ((mx_dims){.n = MX_COUNT(__VA_ARGS__) +                                                                 \
                    MX_NOT_EMPTY(#__VA_ARGS__, "MX_DIMS() has no sizes: MX_SCALAR_DIMS is the shape of a 0-d array"), \
               .d = {__VA_ARGS__}})
#define MX_FLOATS(...)                                                                                      \
    ((mx_floats){.n = MX_COUNT(__VA_ARGS__) + MX_NOT_EMPTY(#__VA_ARGS__, "MX_FLOATS() has no numbers"),       \
                 .d = {__VA_ARGS__}})
#define MX_NO_DIMS ((mx_dims){.n = -1})     /* None */
#define MX_SCALAR_DIMS ((mx_dims){.n = 0})  /* (): a 0-d array */

/* ---- errors --------------------------------------------------------------------------------------------- */
typedef enum mx_code {
    MX_OK = 0,
    MX_ERR_ARGUMENT,    /* NULL, wrong kind of object, unknown name */
    MX_ERR_SHAPE,       /* shapes that do not fit together */
    MX_ERR_DTYPE,       /* element types that do not fit together */
    MX_ERR_ATTRIBUTE,   /* an operator attribute that is missing, unknown, unparsable or out of range */
    MX_ERR_INDEX,       /* an index outside its axis */
    MX_ERR_DEVICE,      /* wrong or missing device */
    MX_ERR_MEMORY,      /* allocation failed */
    MX_ERR_FILE,        /* file missing, unreadable, truncated or not what it claims */
    MX_ERR_AUTOGRAD,    /* backward without a recorded graph, write into a recorded array ... */
    MX_ERR_PARAMETER,   /* parameter not initialized, still deferred, on another context ... */
    MX_ERR_DEFERRED,    /* parameter whose shape is not known yet */
    MX_ERR_STATE,       /* the object is not in a state that allows the call */
    MX_ERR_UNSUPPORTED, /* valid request that this build or device does not support */
    MX_ERR_CALLBACK,    /* a user's function failed */
    MX_ERR_COMM,        /* another process failed, ended or does something else; messages do not arrive */
    MX_ERR_COUNT
} mx_code;

MX_API mx_code mx_error_code(void);        /* of the first error since the last clear; MX_OK if none */
MX_API const char *mx_error_message(void); /* "" if none; valid until the next error of this thread */
MX_API const char *mx_error_name(mx_code code);
MX_API void mx_error_clear(void);
/* Sets the caller's own error (for blocks and functions written by users); returns code. */
MX_API mx_code mx_error_set(mx_code code, const char *format, ...) MX_PRINTF(2, 3);
/* Prints the first error, if any, to stderr as "who: message", clears it and returns 1; else returns 0. */
MX_API int mx_check(const char *who);

/* ---- objects and scopes --------------------------------------------------------------------------------- */
typedef struct mx_object mx_object; /* common base of arrays, blocks, parameters ...: a reference count and a kind */

/* All public object pointers may be passed; NULL is ignored. mx_keep returns its argument. */
MX_API void *mx_keep(void *object);
MX_API void mx_release(void *object);

typedef struct mx_scope {
    size_t mark; /* length of the thread's list of temporaries when the scope was opened */
    bool open;   /* false once closed, so that closing twice is harmless */
} mx_scope;
MX_API mx_scope mx_scope_open(void);
MX_API void mx_scope_close(mx_scope *scope);
/* Moves `object` from the innermost scope to the one around it: how a function returns out of its own scope. */
MX_API void *mx_scope_return(mx_scope *scope, void *object);

#define MX_CONCAT2(a, b) a##b
#define MX_CONCAT(a, b) MX_CONCAT2(a, b)
/* Opens a scope that closes on every exit of the enclosing block. */
#define MX_SCOPE \
    __attribute__((cleanup(mx_scope_close), unused)) mx_scope MX_CONCAT(mx_scope_at_, __LINE__) = mx_scope_open()
/* mx_scoped() { ... }: the statement runs in a scope of its own. */
#define mx_scoped() MX_SCOPED_AS_(MX_CONCAT(mx_scope_at_, __LINE__), MX_CONCAT(mx_once_at_, __LINE__))
#define MX_SCOPED_AS_(scope, once)                                                                             \
    for (mx_scope scope __attribute__((cleanup(mx_scope_close))) = mx_scope_open(), *once = &scope; once; once = NULL)

/* ---- checking mode -------------------------------------------------------------------------------------- */
/* On (also by MXNET_CHECK=1): an error where an operator makes NaN or infinity from finite inputs, reads an index or label
 * that is out of range, or divides integers with a remainder, and where a step updates with gradients that no backward
 * has computed since the last one.  Everything runs operator by operator and waits: slow.  Off: no cost. */
MX_API void mx_set_check(bool on);
MX_API bool mx_get_check(void);

/* ---- threads and random numbers ------------------------------------------------------------------------- */
MX_API int mx_num_threads(void);
MX_API void mx_set_num_threads(
    int count); /* 1..; default: the CPUs of the process's cpuset or MXNET_CPU_WORKER_NTHREADS */
MX_API void mx_random_seed(uint64_t seed);

#endif
