/* The thread's error record: the first error since the last clear, with its message.
 *
 * The text lives on the heap from the thread's first error on: thread-local space of a loaded library is scarce.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_BYTES 1024

static _Thread_local struct {
    mx_code code;        /* MX_OK: no error */
    const char *context; /* operator or block path that is running; not owned */
    char *message;       /* "context: what happened", MESSAGE_BYTES; owned; NULL: no error yet, or no memory for it */
} record;

static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

static void forget_message(void *message)
{
    free(message);
    record.message = NULL;
}
static void make_exit_key(void) { pthread_key_create(&exit_key, forget_message); }

/* Allocates the text; false if out of memory: then only the code is recorded. */
static bool have_message(void)
{
    if (record.message)
        return true;
    pthread_once(&exit_once, make_exit_key);
    record.message = malloc(MESSAGE_BYTES);
    if (record.message)
        pthread_setspecific(exit_key, record.message);
    return record.message != NULL;
}

static const char *const code_names[MX_ERR_COUNT] = {
    "no error",        "wrong argument", "wrong shape",     "wrong type",         "wrong attribute",
    "wrong index",     "wrong device",   "out of memory",   "file error",         "autograd error",
    "parameter error", "deferred shape", "wrong state",     "unsupported",        "callback failed",
};

mx_code mx_error_code(void) { return record.code; }
const char *mx_error_message(void)
{
    if (!record.code)
        return "";
    return record.message ? record.message : "out of memory, also for the message";
}
const char *mx_error_last(void) { return record.message ? record.message : mx_error_message(); }
const char *mx_error_name(mx_code code)
{
    return code >= 0 && code < MX_ERR_COUNT ? code_names[code] : "unknown error";
}
void mx_error_clear(void) { record.code = MX_OK; }
bool mx_has_error(void) { return record.code != MX_OK; }

const char *mx_error_context(const char *who)
{
    const char *previous = record.context;
    record.context = who;
    return previous;
}

mx_code mx_error_set(mx_code code, const char *format, ...)
{
    if (record.code || code == MX_OK)
        return code; /* later errors are consequences of the first */
    record.code = code;
    if (!have_message())
        return code;
    size_t used = 0;
    if (record.context && *record.context)
        used = (size_t)snprintf(record.message, MESSAGE_BYTES, "%s: ", record.context);
    if (used >= MESSAGE_BYTES)
        used = 0;
    va_list args;
    va_start(args, format);
    vsnprintf(record.message + used, MESSAGE_BYTES - used, format, args);
    va_end(args);
    return code;
}

void mx_error_mention(const char *who)
{
    const size_t length = strlen(who) + 2;
    if (!record.code || !record.message || strstr(record.message, who) || length >= MESSAGE_BYTES)
        return;
    memmove(record.message + length, record.message, MESSAGE_BYTES - length);
    memcpy(record.message, who, length - 2);
    memcpy(record.message + length - 2, ": ", 2);
    record.message[MESSAGE_BYTES - 1] = 0;
}

int mx_check(const char *who)
{
    if (!record.code)
        return 0;
    fprintf(stderr, "%s: %s\n", who ? who : "gluon", mx_error_message());
    mx_error_clear();
    return 1;
}

const char *mx_version(void)
{
#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)
    return TEXT(MX_VERSION_MAJOR) "." TEXT(MX_VERSION_MINOR) "." TEXT(MX_VERSION_PATCH);
}
