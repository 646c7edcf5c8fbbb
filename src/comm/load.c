/* Finding and opening the MPI part at the first use of several processes.
 *
 * Searched: GLUON_MPI_LIBRARY, then the folder of the file that holds this code and the folder lib beside it, then the
 * system's library path.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/flags.h"
#include "comm/transport.h"

#define FILE_NAME "libgluon_mpi.so"

static const char advice[] = "install MPI (Debian: apt-get install libopenmpi-dev openmpi-bin) and build Gluon again, "
                             "or set GLUON_MPI_LIBRARY";
static mx_mpi_open_fn entry;
static char reason[1024]; /* why there is none */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* FOLDER/below/libgluon_mpi.so, where FOLDER holds the file with this code. */
static void *open_from(const char *below)
{
    Dl_info self;
    char path[4096];
    const char *slash =
        dladdr((void *)(uintptr_t)advice, &self) && self.dli_fname ? strrchr(self.dli_fname, '/') : NULL;
    const int length = slash ? (int)(slash - self.dli_fname) : -1;
    if (length < 0 ||
        (size_t)snprintf(path, sizeof path, "%.*s/%s" FILE_NAME, length, self.dli_fname, below) >= sizeof path)
        return NULL;
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *open_part(void)
{
    const char *named = mx_flags_get()->mpi_library;
    if (*named)
        return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    void *part = open_from("");
    if (!part)
        part = open_from("../lib/"); /* of a program in bin/ with the library inside */
    return part ? part : dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
}

static void load(void)
{
    void *part = open_part();
    if (!part) {
        const char *text = dlerror();
        snprintf(reason, sizeof reason, "%.700s; %s", text ? text : FILE_NAME " is missing", advice);
        return;
    }
    entry = (mx_mpi_open_fn)(uintptr_t)dlsym(part, MX_MPI_OPEN);
    if (!entry)
        snprintf(reason, sizeof reason, FILE_NAME " belongs to another version of the library");
}

mx_mpi_open_fn mx_mpi_part(const char **why)
{
    pthread_once(&once, load);
    *why = reason;
    return entry;
}
