/* System calls that fail on demand: a library for LD_PRELOAD.
 *
 * fault_arm(what, nth, error) arms it for the process: the nth of the calls that change files (open for writing, write,
 * pwrite, fsync, fdatasync, rename, unlink, ftruncate, close, fflush, fwrite, mkdir; counted from 1) fails with `error`, or
 *
 *     FAULT_KILL   ends the process with SIGKILL, before the call; a write first writes half of its bytes
 *     FAULT_FULL   like FAULT_ERROR, and every later write fails, too: the disk stays full
 *     FAULT_SHORT  every write writes at most `error` bytes
 *     FAULT_EINTR  every odd call fails with EINTR
 *
 * fault_disarm() returns the number of calls that were counted.  Calls on standard output and error, and on what is not a
 * file (pipes, sockets), are not counted.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FAULT_NONE, FAULT_ERROR, FAULT_KILL, FAULT_FULL, FAULT_SHORT, FAULT_EINTR };

static struct {
    int what, error;
    long nth, calls;
    bool full; /* FAULT_FULL has begun */
} fault;

void fault_arm(int what, long nth, int error);
long fault_disarm(void);

void fault_arm(int what, long nth, int error)
{
    fault.error = error, fault.nth = nth, fault.calls = 0, fault.full = false;
    fault.what = what;
}

long fault_disarm(void)
{
    fault.what = FAULT_NONE;
    return fault.calls;
}

#define REAL(name, result, ...)                                \
    static result (*real)(__VA_ARGS__);                        \
    if (!real)                                                 \
        real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

static bool is_file(int file)
{
    struct stat info;
    const int before = errno;
    const bool yes = file > 2 && fstat(file, &info) == 0 && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode));
    errno = before;
    return yes;
}

/* Counts a call; true: it must fail with errno as set. */
static bool fails(bool writes)
{
    if (fault.what == FAULT_NONE)
        return false;
    const long call = ++fault.calls;
    if (fault.what == FAULT_EINTR && call % 2) {
        errno = EINTR;
        return true;
    }
    if (call == fault.nth && fault.what == FAULT_KILL)
        kill(getpid(), SIGKILL);
    if (call == fault.nth && fault.what == FAULT_FULL)
        fault.full = true;
    if (fault.full ? writes : call == fault.nth && fault.what == FAULT_ERROR) {
        errno = fault.error;
        return true;
    }
    return false;
}

static bool dies_now(void) { return fault.what == FAULT_KILL && fault.calls + 1 == fault.nth; }

ssize_t write(int file, const void *bytes, size_t count)
{
    REAL(write, ssize_t, int, const void *, size_t);
    if (fault.what == FAULT_NONE || !is_file(file))
        return real(file, bytes, count);
    if (dies_now() && count > 1)
        (void)!real(file, bytes, count / 2);
    if (fails(true))
        return -1;
    return real(file, bytes, fault.what == FAULT_SHORT && count > (size_t)fault.error ? (size_t)fault.error : count);
}

size_t fwrite(const void *bytes, size_t size, size_t count, FILE *file)
{
    REAL(fwrite, size_t, const void *, size_t, size_t, FILE *);
    if (fault.what == FAULT_NONE || !is_file(fileno(file)))
        return real(bytes, size, count, file);
    if (dies_now() && size * count > 1) {
        real(bytes, 1, size * count / 2, file);
        fflush(file);
    }
    return fault.what != FAULT_EINTR && fails(true) ? 0 : real(bytes, size, count, file);
}

int fflush(FILE *file)
{
    REAL(fflush, int, FILE *);
    return file && fault.what != FAULT_NONE && fault.what != FAULT_EINTR && is_file(fileno(file)) && fails(true)
               ? EOF
               : real(file);
}

int close(int file)
{
    REAL(close, int, int);
    if (fault.what == FAULT_NONE || !is_file(file))
        return real(file);
    const bool bad = fails(false);
    const int error = errno, code = real(file); /* the descriptor is gone in any case, as on Linux */
    errno = bad ? error : errno;
    return bad ? -1 : code;
}

#define ON_DESCRIPTOR(name)                                                                    \
    int name(int file)                                                                         \
    {                                                                                          \
        REAL(name, int, int);                                                                  \
        return fault.what != FAULT_NONE && is_file(file) && fails(true) ? -1 : real(file);     \
    }
ON_DESCRIPTOR(fsync)
ON_DESCRIPTOR(fdatasync)

int rename(const char *from, const char *to)
{
    REAL(rename, int, const char *, const char *);
    return fault.what != FAULT_EINTR && fails(false) ? -1 : real(from, to);
}

static int open_with(int (*real)(const char *, int, ...), const char *path, int flags, mode_t mode)
{
    return (flags & O_ACCMODE) != O_RDONLY && fails(false) ? -1 : real(path, flags, mode);
}

#define OPENS(name)                                        \
    int name(const char *path, int flags, ...)             \
    {                                                      \
        REAL(name, int, const char *, int, ...);           \
        va_list list;                                      \
        va_start(list, flags);                             \
        const mode_t mode = va_arg(list, mode_t);          \
        va_end(list);                                      \
        return open_with(real, path, flags, mode);         \
    }
OPENS(open)
OPENS(open64)
