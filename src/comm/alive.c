/* Signs of life (see alive.h).
 *
 *     rank 0 --sign--> rank 1 --sign--> ... --> rank n - 1 --sign--> rank 0        every second, by the engine's thread
 *
 * A process that dies is reported by its launcher.  A machine that loses power, or a cable that is cut, is not: MPI waits
 * for many minutes.  The process after a silent one reports it to all others.  A process that is late still sends signs, since
 * the engine has a thread of its own; transports without threads send none and are not expected to.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "comm/alive.h"

#include "base/flags.h"

#define SECOND INT64_C(1000000000)

int mx_alive_watched(const mx_transport *t) { return (t->rank + t->size - 1) % t->size; }

void mx_alive_hear(mx_alive *self, const mx_transport *t, const mx_notice *notice, int64_t now)
{
    if (notice->from != mx_alive_watched(t))
        return;
    if (notice->kind == MX_NOTICE_LIVES)
        self->heard = now;
    else
        self->heard = 0; /* it ends, or fails and says so */
}

static void send_sign(mx_alive *self, const mx_transport *t, int64_t now)
{
    if (now - self->sent < SECOND)
        return;
    const mx_notice sign = {.kind = MX_NOTICE_LIVES, .from = t->rank};
    t->tell((t->rank + 1) % t->size, &sign);
    self->sent = now;
}

int64_t mx_alive_turn(mx_alive *self, const mx_transport *t, int64_t now)
{
    const int64_t limit = mx_flags_get()->comm_silence;
    if (limit <= 0 || t->size < 2)
        return 0;
    send_sign(self, t, now);
    if (self->heard && now - self->looked > SECOND)
        self->heard = now; /* this process was stopped itself: signs may wait to be read */
    self->looked = now;
    const int64_t silent = self->heard ? (now - self->heard) / SECOND : 0;
    return silent >= limit ? silent : 0;
}
