/* The flags table read from the environment, once.
 *
 * Texts are copied into static storage: getenv's memory may change in a later setenv, and the allocator reads its flag
 * before it can allocate.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/flags.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_BYTES 4096 /* longest value, with its end: a path */

enum {
#define FLAG_INDEX(name, env, type, value, doc) FLAG_##name,
    MX_FLAGS(FLAG_INDEX)
#undef FLAG_INDEX
    FLAG_COUNT
};

#define FALLBACK_int(value) #value
#define FALLBACK_text(value) value

static char values[FLAG_COUNT][VALUE_BYTES]; /* current values, as text */
static mx_flag_row rows[FLAG_COUNT] = {
#define FLAG_ROW(name, env, type, value, doc) {env, values[FLAG_##name], FALLBACK_##type(value), doc},
    MX_FLAGS(FLAG_ROW)
#undef FLAG_ROW
};
static mx_flags flags;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static mx_flag_int read_int(const char *env, mx_flag_int fallback, char *shown)
{
    const char *text = getenv(env);
    mx_flag_int value = fallback;
    if (text && *text) {
        char *end;
        errno = 0;
        long long parsed = strtoll(text, &end, 10);
        if (!errno && !*end)
            value = parsed;
    }
    snprintf(shown, VALUE_BYTES, "%" PRId64, value);
    return value;
}

static mx_flag_text read_text(const char *env, mx_flag_text fallback, char *shown)
{
    const char *text = getenv(env);
    if (!text || !*text || strlen(text) >= VALUE_BYTES)
        text = fallback;
    memcpy(shown, text, strlen(text) + 1);
    return shown;
}

static void read_all(void)
{
#define FLAG_READ(name, env, type, value, doc) flags.name = read_##type(env, value, values[FLAG_##name]);
    MX_FLAGS(FLAG_READ)
#undef FLAG_READ
}

const mx_flags *mx_flags_get(void)
{
    pthread_once(&once, read_all);
    return &flags;
}

const mx_flag_row *mx_flag_describe(int i)
{
    mx_flags_get();
    return i >= 0 && i < FLAG_COUNT ? &rows[i] : NULL;
}
