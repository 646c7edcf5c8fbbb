/* Whether this thread reads shapes as NumPy does.  Apart from shape.c, which the CUDA part contains, too: the thread's
 * state is the library's alone.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"
#include "ndarray/shape.h"

bool mx_set_np_shape(bool on)
{
    const bool before = mx_thread.np_shape;
    mx_thread.np_shape = on;
    return before;
}

bool mx_is_np_shape(void) { return mx_thread.np_shape; }
