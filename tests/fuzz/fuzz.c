/* Files and limits for the fuzz targets.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"

static char path[96];

static void remove_file(void) { unlink(path); }

const char *fuzz_file(const uint8_t *bytes, size_t size, const char *suffix)
{
    const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* memory, where there is some */
    if (!path[0])
        atexit(remove_file);
    snprintf(path, sizeof path, "%s/gluon-fuzz-%ld%s", folder, (long)getpid(), suffix);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || write(file, bytes, size) != (ssize_t)size || close(file)) {
        perror(path);
        exit(2);
    }
    return path;
}

/* The densest of our formats is a compressed one: 1032 bytes out of one. */
void fuzz_limit_memory(size_t size) { mx_alloc_set_limit(((size_t)1 << 20) + 1032 * size); }
