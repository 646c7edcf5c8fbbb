/* Recording and training: two flags of the thread.  SPDX-License-Identifier: Apache-2.0 */
#include "exec/tape.h"

bool mx_is_recording(void) { return mx_thread.modes.recording; }
bool mx_is_training(void) { return mx_thread.modes.training; }

bool mx_set_recording(bool on)
{
    bool previous = mx_thread.modes.recording;
    mx_thread.modes.recording = on;
    return previous;
}

bool mx_set_training(bool on)
{
    bool previous = mx_thread.modes.training;
    mx_thread.modes.training = on;
    return previous;
}

mx_mode mx_mode_enter(int recording, int training)
{
    mx_mode previous = {mx_thread.modes.recording, mx_thread.modes.training, true};
    if (recording >= 0)
        mx_thread.modes.recording = recording;
    if (training >= 0)
        mx_thread.modes.training = training;
    return previous;
}

void mx_mode_leave(mx_mode *mode)
{
    if (!mode || !mode->open)
        return;
    mode->open = false;
    mx_thread.modes.recording = mode->recording;
    mx_thread.modes.training = mode->training;
}
