/* The thread's error record: the first error since the last clear, with its message.
 *
 * The text lives on the heap from the thread's first error on: thread-local space of a loaded library is scarce.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include "base/blame.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_BYTES 1024

static _Thread_local struct {
    mx_code code;        /* MX_OK: no error */
    bool speaks;         /* the context stands for the operator, whose name messages leave out */
    const char *context; /* operator or block path that is running; not owned */
    const void *blamed;  /* what `path` begins with; not owned, perhaps gone: never followed */
    char *message;       /* "context: what happened", MESSAGE_BYTES; owned; NULL: no error yet, or no memory for it */
    char *path, *leaf;   /* "net0.body.1" and the name of its last block; MX_BLAME_TEXT each, in the same allocation */
} record;

static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

static void forget_message(void *message)
{
    free(message);
    record.message = record.path = record.leaf = NULL;
}
static void make_exit_key(void) { pthread_key_create(&exit_key, forget_message); }

/* Allocates the text; false if out of memory: then only the code is recorded. */
static bool have_message(void)
{
    if (record.message)
        return true;
    pthread_once(&exit_once, make_exit_key);
    record.message = calloc(1, MESSAGE_BYTES + 2 * MX_BLAME_TEXT);
    if (record.message) {
        record.path = record.message + MESSAGE_BYTES;
        record.leaf = record.path + MX_BLAME_TEXT;
        pthread_setspecific(exit_key, record.message);
    }
    return record.message != NULL;
}

static const char *const code_names[MX_ERR_COUNT] = {
    "no error",        "wrong argument", "wrong shape",     "wrong type",         "wrong attribute",
    "wrong index",     "wrong device",   "out of memory",   "file error",         "autograd error",
    "parameter error", "deferred shape", "wrong state",     "unsupported",        "callback failed",
    "communication failed",
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
    if (code != MX_ERR_CALLBACK) /* a callback passes on an error that has a path */
        record.blamed = NULL;    /* another block may be at the address of the one that was blamed before */
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

/* Where the message goes on after the block that was running. */
static char *after_context(void)
{
    const size_t length = record.context ? strlen(record.context) : 0;
    const bool begins = length && !strncmp(record.message, record.context, length) && record.message[length] == ':';
    return record.message + (begins && record.message[length + 1] ? length + 2 : 0);
}

void mx_error_mention(const char *who)
{
    const size_t length = strlen(who) + 2;
    if (!record.code || !record.message || record.speaks || strstr(record.message, who))
        return;
    char *at = after_context();
    const size_t room = MESSAGE_BYTES - (size_t)(at - record.message);
    if (length >= room)
        return;
    memmove(at + length, at, room - length);
    memcpy(at, who, length - 2);
    memcpy(at + length - 2, ": ", 2);
    record.message[MESSAGE_BYTES - 1] = 0;
}

/* ---- paths (blame.h) --------------------------------------------------------------------------------------------- */

const void *mx_blamed(void) { return record.blamed; }

size_t mx_blame_prefix(const char *text, char prefix[MX_BLAME_TEXT])
{
    const size_t length = record.path ? strlen(record.leaf) : 0;
    if (!length || !strchr(record.path, '.'))
        return 0;
    const size_t used = (size_t)snprintf(prefix, MX_BLAME_TEXT, "%.150s (%.90s): ", record.path, record.leaf);
    if (!strncmp(text, record.leaf, length) && text[length] == ':' && text[length + 1] == ' ')
        return length + 2;
    /* "longer.path (leaf): " of the blocks inside */
    const char *open = strstr(text, " ("), *close = open ? open + 2 + length : NULL;
    if (!open || strncmp(open + 2, record.leaf, length) || strncmp(close, "): ", 3))
        return 0;
    const size_t old = (size_t)(close + 3 - text);
    return old == used && !strncmp(text, prefix, used) ? 0 : old;
}

static void rename_message(void)
{
    char prefix[MX_BLAME_TEXT], *text = record.message;
    const size_t old = mx_blame_prefix(text, prefix), new = old ? strlen(prefix) : 0;
    if (!old)
        return;
    const size_t rest = strnlen(text + old, MESSAGE_BYTES - 1 - (new > old ? new : old));
    memmove(text + new, text + old, rest);
    memcpy(text, prefix, new);
    text[new + rest] = 0;
}

void mx_blame(const void *thing, const char *name, const char *key)
{
    char path[MX_BLAME_TEXT];
    if (!have_message())
        return;
    record.blamed = thing;
    if (!key) {
        snprintf(record.path, MX_BLAME_TEXT, "%s", name);
        snprintf(record.leaf, MX_BLAME_TEXT, "%s", name);
        return;
    }
    const char *dot = strchr(record.path, '.'); /* block names have none */
    snprintf(path, sizeof path, "%.60s.%.60s%.120s", name, key, dot ? dot : "");
    memcpy(record.path, path, sizeof path);
    if (record.code)
        rename_message();
}

bool mx_context_is_operator(bool on)
{
    const bool before = record.speaks;
    record.speaks = on;
    return before;
}
bool mx_context_speaks(void) { return record.speaks && record.context; }

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
