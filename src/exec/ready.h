/* Who wants to know when a backward has finished a gradient: exchanges between processes start then, while it goes on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_EXEC_READY_H
#define MX_EXEC_READY_H

#include "gluon/array.h"

/* Called in the thread of the backward, with the array that holds the gradient: nothing more will be added to it. */
typedef void (*mx_ready_fn)(void *user, mx_array *gradient);
mx_code mx_ready_listen(mx_ready_fn function, void *user);
void mx_ready_leave(void *user); /* returns when no call for `user` runs any more */

bool mx_ready_wanted(void);
void mx_ready_tell(mx_array *gradient);

#endif
