/* Notices between processes, sent and received by the engine: failures, ends, signs of life.
 *
 * A fault finishes every work that waits; the first one is kept, and is the message of all of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "comm/check.h"
#include "comm/engine_state.h"

#define LAST_LOOKS 100 /* at works that are under way when a process has failed */

void mx_engine_set_fault(int rank, const char *format, ...)
{
    va_list arguments;
    if (mx_engine.fault)
        return;
    mx_engine.fault = rank + 1;
    va_start(arguments, format);
    vsnprintf(mx_engine.fault_text, sizeof mx_engine.fault_text, format, arguments);
    va_end(arguments);
    if (mx_engine.on_fault)
        mx_engine.on_fault();
}

/* A work that a process which has ended will never take part in. */
static void check_work(const mx_work *w)
{
    char text[256];
    for (int r = 0; w->number && !mx_engine.fault && r < mx_engine.transport->size; r++) {
        const mx_notice *n = &mx_engine.heard[r];
        if (n->kind == MX_NOTICE_ENDS && n->done[w->what.channel] < w->number)
            mx_engine_set_fault(r,
                                "rank %d has ended after %lld exchanges, but rank %d waits for it in exchange %lld: %s",
                                r, (long long)n->done[w->what.channel], mx_engine.transport->rank, (long long)w->number,
                                mx_comm_describe(&w->what, text, sizeof text));
    }
}

static void check_ended(void)
{
    for (const mx_work *w = mx_engine.first; w && !mx_engine.fault; w = w->next)
        check_work(w);
    for (int c = 0; c < MX_COMM_CHANNELS; c++)
        check_work(&mx_engine.beside[c]);
}

static void take_notice(const mx_notice *notice)
{
    if (notice->from < 0 || notice->from >= mx_engine.transport->size)
        return;
    mx_alive_hear(&mx_engine.alive, mx_engine.transport, notice, mx_engine_now());
    if (notice->kind == MX_NOTICE_LIVES)
        return;
    mx_engine.heard[notice->from] = *notice;
    if (notice->kind == MX_NOTICE_FAILED)
        mx_engine_set_fault(notice->from, "rank %d failed: %s", notice->from, notice->text);
    mx_engine.lost |= notice->kind == MX_NOTICE_FAILED && notice->lost;
}

static void tell_all(mx_notice *notice);

/* The process that this one watches is silent: its machine, or the way to it, is gone. */
static void check_alive(void)
{
    const int64_t seconds =
        mx_engine.threaded ? mx_alive_turn(&mx_engine.alive, mx_engine.transport, mx_engine_now()) : 0;
    if (!seconds || mx_engine.fault)
        return;
    mx_notice notice = {.kind = MX_NOTICE_FAILED, .lost = 1, .from = mx_alive_watched(mx_engine.transport)};
    snprintf(notice.text, sizeof notice.text,
             "rank %d has not heard of it for %lld seconds; its machine or the network is down (GLUON_COMM_SILENCE "
             "sets how long to wait)",
             mx_engine.transport->rank, (long long)seconds);
    fprintf(stderr, "gluon: rank %d failed: %s\n", notice.from, notice.text);
    mx_engine_set_fault(notice.from, "rank %d failed: %s", notice.from, notice.text);
    mx_engine.lost = true;
    tell_all(&notice);
}

void mx_engine_listen(void)
{
    mx_notice notice;
    while (mx_engine.transport->hear(&notice))
        take_notice(&notice);
    check_alive();
    check_ended();
    /* A notice may overtake the last messages of an exchange that the failed process did take part in. */
    for (int i = 0; mx_engine.fault && mx_engine.first && i < LAST_LOOKS; i++)
        mx_engine_progress();
    while (mx_engine.fault && mx_engine.first)
        mx_engine_finish(mx_engine.first, MX_ERR_COMM, mx_engine.fault_text);
}

/* All but this process and the one that it is about. */
static void tell_all(mx_notice *notice)
{
    memcpy(notice->done, mx_engine.begun, sizeof notice->done);
    for (int r = 0; r < mx_engine.transport->size; r++)
        if (r != mx_engine.transport->rank && r != notice->from)
            mx_engine.transport->tell(r, notice);
}

void mx_engine_notify(mx_notice_kind kind, const char *text)
{
    mx_notice notice = {.kind = kind, .from = mx_engine.transport->rank};
    snprintf(notice.text, sizeof notice.text, "%s", text);
    tell_all(&notice);
}
