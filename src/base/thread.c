/* The state of the running thread (see thread.h).  SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

_Thread_local mx_thread_state mx_thread = {.context = {MX_CPU, 0}};
