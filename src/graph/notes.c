/* Attribute scopes: notes that every node created inside gets (see names.h).  SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"
#include "gluon/symbol.h"
#include "graph/names.h"

static pthread_key_t exit_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void drop_last(void)
{
    mx_scope_note *last = &mx_thread.notes.items[--mx_thread.notes.length];
    mx_strfree(last->key);
    mx_strfree(last->text);
}

static void thread_exit(void *unused)
{
    (void)unused;
    while (mx_thread.notes.length)
        drop_last();
    mx_vec_free(&mx_thread.notes);
}
static void make_exit_key(void) { pthread_key_create(&exit_key, thread_exit); }
__attribute__((destructor)) static void process_exit(void) { thread_exit(NULL); }

static mx_code push(const char *key, const char *text)
{
    mx_scope_note n = {key ? mx_strdup(key) : NULL, text ? mx_strdup(text) : NULL};
    if ((!key || (n.key && n.text)) && mx_vec_push(&mx_thread.notes, n))
        return MX_OK;
    mx_strfree(n.key);
    mx_strfree(n.text);
    return mx_error_code();
}

void mx_symbol_attrs_leave(void)
{
    while (mx_thread.notes.length && mx_thread.notes.items[mx_thread.notes.length - 1].key)
        drop_last();
    if (mx_thread.notes.length)
        mx_thread.notes.length--;
}

mx_code mx_symbol_attrs_enter(int count, const char *const *keys, const char *const *values)
{
    pthread_once(&once, make_exit_key);
    pthread_setspecific(exit_key, &mx_thread.notes);
    if (count < 0 || (count && (!keys || !values)))
        return mx_fail(MX_ERR_ARGUMENT, "mx_symbol_attrs_enter: keys or values is NULL");
    if (push(NULL, NULL))
        return mx_error_code();
    mx_code code = MX_OK;
    for (int i = 0; !code && i < count; i++) {
        if (!keys[i] || !values[i])
            code = mx_fail(MX_ERR_ARGUMENT, "mx_symbol_attrs_enter: attribute %d has no %s", i,
                           keys[i] ? "value" : "name");
        else
            code = push(mx_notes_key(keys[i]), values[i]);
    }
    if (code)
        mx_symbol_attrs_leave();
    return code;
}

mx_code mx_notes_apply(mx_gnode *node)
{
    for (int64_t i = mx_thread.notes.length - 1; i >= 0; i--)
        if (mx_thread.notes.items[i].key && !mx_note_get(node, mx_thread.notes.items[i].key) &&
            mx_note_set(node, mx_thread.notes.items[i].key, mx_thread.notes.items[i].text))
            return mx_error_code();
    return MX_OK;
}

const char *mx_notes_key(const char *key)
{
    static const char *const hidden[] = {"ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage"};
    static const char *const stored[] = {"__ctx_group__", "__lr_mult__", "__wd_mult__", "__force_mirroring__",
                                         "__mirror_stage__"};
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        if (!strcmp(key, hidden[i]))
            return stored[i];
    return key;
}
