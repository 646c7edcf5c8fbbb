/* Scopes that name nodes (see names.h).  SPDX-License-Identifier: Apache-2.0 */
#include "graph/names.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"
#include "gluon/symbol.h"

/* Frees the counters of a thread that ends. */
static pthread_key_t exit_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void free_namer(mx_namer *m)
{
    mx_strfree(m->prefix);
    mx_dict_free(&m->counters);
    m->prefix = NULL;
}

static void thread_exit(void *unused)
{
    (void)unused;
    while (mx_thread.names.opened.length)
        free_namer(&mx_thread.names.opened.items[--mx_thread.names.opened.length]);
    mx_vec_free(&mx_thread.names.opened);
    free_namer(&mx_thread.names.outermost);
}
static void make_exit_key(void) { pthread_key_create(&exit_key, thread_exit); }
__attribute__((destructor)) static void process_exit(void) { thread_exit(NULL); }

static mx_namer *current(void)
{
    pthread_once(&once, make_exit_key);
    pthread_setspecific(exit_key, &mx_thread.names.outermost);
    return mx_thread.names.opened.length ? &mx_thread.names.opened.items[mx_thread.names.opened.length - 1]
                                         : &mx_thread.names.outermost;
}

mx_dict *mx_names_counters(void)
{
    current();
    return &mx_thread.names.outermost.counters;
}

mx_code mx_names_push(const char *prefix)
{
    current();
    mx_namer m = {.prefix = prefix && *prefix ? mx_strdup(prefix) : NULL};
    if (prefix && *prefix && !m.prefix)
        return mx_error_code();
    if (mx_vec_push(&mx_thread.names.opened, m))
        return MX_OK;
    free_namer(&m);
    return mx_error_code();
}

void mx_names_pop(void)
{
    if (mx_thread.names.opened.length)
        free_namer(&mx_thread.names.opened.items[--mx_thread.names.opened.length]);
}

const char *mx_names_next(const char *name)
{
    const char *waiting = mx_thread.names.next;
    mx_thread.names.next = name;
    return waiting;
}

void mx_names_next_hint(const char *hint) { mx_thread.names.next_hint = hint; }

mx_name_fn mx_names_ask(mx_name_fn make)
{
    const mx_name_fn before = mx_thread.names.asked;
    mx_thread.names.asked = make;
    mx_thread.names.asked_depth = mx_thread.names.opened.length;
    return before;
}

/* The callback may itself call the library. */
static char *ask(const char *name, const char *hint)
{
    const mx_name_fn make = mx_thread.names.asked;
    mx_thread.names.asked = NULL;
    char *made = make(name, hint);
    mx_thread.names.asked = make;
    return made;
}

char *mx_names_make(const char *name, const char *hint)
{
    mx_namer *m = current();
    mx_text text = {0};
    if (!name && mx_thread.names.next) {
        name = mx_thread.names.next;
        mx_thread.names.next = NULL;
    }
    if (!name && mx_thread.names.next_hint) {
        hint = mx_thread.names.next_hint;
        mx_thread.names.next_hint = NULL;
    }
    if (mx_thread.names.asked && mx_thread.names.asked_depth == mx_thread.names.opened.length)
        return ask(name, hint);
    mx_text_add(&text, m->prefix);
    if (name) {
        mx_text_add(&text, name);
        return mx_text_take(&text);
    }
    int64_t n = mx_dict_count(&m->counters, hint);
    if (n < 0)
        return mx_text_free(&text), NULL;
    mx_text_print(&text, "%s%lld", hint, (long long)n);
    return mx_text_take(&text);
}

const char *mx_names_usual_hint(const mx_op *op, char *buffer)
{
    return mx_names_hint(op->hint ? op->hint : op->name, buffer);
}

const char *mx_names_hint(const char *called, char *buffer)
{
    snprintf(buffer, 64, "%s", called);
    for (char *p = buffer; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return buffer;
}

mx_code mx_symbol_names_enter(const char *prefix) { return mx_names_push(prefix); }
void mx_symbol_names_leave(void) { mx_names_pop(); }

const char *mx_symbol_name_for(const char *name, const char *hint)
{
    if (!name && !hint)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_symbol_name_for: both name and hint are NULL");
    char *made = mx_names_make(name, hint);
    mx_text text = {0};
    mx_text_add(&text, made);
    if (!made)
        return mx_text_free(&text), NULL;
    mx_strfree(made);
    return mx_text_to_scope(&text);
}
