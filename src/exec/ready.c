/* Listeners for finished gradients (see ready.h).  SPDX-License-Identifier: Apache-2.0 */
#include "exec/ready.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"
#include "base/vec.h"

typedef struct listener {
    mx_ready_fn function;
    void *user;
} listener;

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static MX_VEC(listener) listeners; /* guarded by the lock */
static _Atomic int count;          /* of them, to be read without the lock */

mx_code mx_ready_listen(mx_ready_fn function, void *user)
{
    pthread_rwlock_wrlock(&lock);
    const bool ok = mx_vec_push(&listeners, ((listener){function, user}));
    atomic_store(&count, (int)listeners.length);
    pthread_rwlock_unlock(&lock);
    return ok ? MX_OK : mx_error_code();
}

void mx_ready_leave(void *user)
{
    int64_t kept = 0;
    pthread_rwlock_wrlock(&lock);
    for (int64_t i = 0; i < listeners.length; i++)
        if (listeners.items[i].user != user)
            listeners.items[kept++] = listeners.items[i];
    listeners.length = kept;
    atomic_store(&count, (int)kept);
    if (!kept)
        mx_vec_free(&listeners);
    pthread_rwlock_unlock(&lock);
}

bool mx_ready_wanted(void) { return atomic_load_explicit(&count, memory_order_relaxed) > 0; }

void mx_ready_tell(mx_array *gradient)
{
    if (!mx_ready_wanted())
        return;
    pthread_rwlock_rdlock(&lock);
    for (int64_t i = 0; i < listeners.length; i++)
        listeners.items[i].function(listeners.items[i].user, gradient);
    pthread_rwlock_unlock(&lock);
}
