/* The cost of a call: small operators from C, recorded and not, a layer, the start of a program, the library's size.
 *
 *     bench_invoke [seconds per number]
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <libgen.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gluon.h"
#include "machine.h"

extern char **environ;

/* ---- operators --------------------------------------------------------------------------------------------------------- */

enum { CALLS = 64 }; /* per scope */

typedef struct job {
    mx_array *a, *b, *out, *w; /* (4): w is a variable */
    mx_block *dense;           /* 4 -> 4 */
    mx_array *row;             /* (1, 4) */
} job;

static void add(void *arg)
{
    MX_SCOPE;
    job *j = arg;
    for (int i = 0; i < CALLS; i++)
        mx_add(j->a, j->b);
}

static void add_out(void *arg)
{
    job *j = arg;
    for (int i = 0; i < CALLS; i++)
        mx_add(j->a, j->b, .out = j->out);
}

static void add_recorded(void *arg)
{
    MX_SCOPE;
    job *j = arg;
    mx_record()
        for (int i = 0; i < CALLS; i++)
            mx_add(j->a, j->w);
}

static void add_backward(void *arg)
{
    MX_SCOPE;
    job *j = arg;
    mx_array *y = j->w;
    mx_record()
        for (int i = 0; i < CALLS; i++)
            y = mx_add(y, j->a);
    mx_backward(y);
}

static void dense(void *arg)
{
    MX_SCOPE;
    job *j = arg;
    for (int i = 0; i < CALLS; i++)
        mx_call(j->dense, j->row);
}

static void report(const char *what, void (*body)(void *arg), job *j, double seconds)
{
    printf("%-44s %8.0f ns\n", what, 1e9 * machine_time(body, j, seconds) / CALLS);
}

/* ---- starting a program --------------------------------------------------------------------------------------------------- */

static double start_time(const char *program, const char *mode)
{
    double best = 1e9;
    for (int i = 0; i < 30; i++) {
        char *const arguments[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)mode, NULL};
        pid_t child;
        int status;
        const double start = machine_seconds();
        if (posix_spawn(&child, program, NULL, NULL, arguments, environ) || waitpid(child, &status, 0) < 0)
            return -1;
        const double time = machine_seconds() - start;
        best = time < best ? time : best;
    }
    return best;
}

/* Bytes that are loaded from a shared library: code and data, without debug information. */
static double loaded_bytes(const char *path)
{
    Elf64_Ehdr header;
    Elf64_Phdr part;
    double sum = 0;
    FILE *file = fopen(path, "rb");
    if (!file || fread(&header, sizeof header, 1, file) != 1 || memcmp(header.e_ident, ELFMAG, SELFMAG) ||
        header.e_ident[EI_CLASS] != ELFCLASS64)
        header.e_phnum = 0, sum = -1;
    for (int i = 0; i < header.e_phnum; i++) {
        if (fseek(file, (long)(header.e_phoff + (Elf64_Off)i * sizeof part), SEEK_SET) ||
            fread(&part, sizeof part, 1, file) != 1)
            break;
        sum += part.p_type == PT_LOAD ? (double)part.p_filesz : 0;
    }
    if (file)
        fclose(file);
    return sum;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--nothing"))
        return 0;
    if (argc > 1 && !strcmp(argv[1], "--add"))
        return mx_item(mx_add(mx_array_scalar(1), mx_array_scalar(2))) != 3;
    const double seconds = argc > 1 ? atof(argv[1]) : 0.5;
    job j = {.a = mx_ones(.shape = MX_DIMS(4)), .b = mx_ones(.shape = MX_DIMS(4)), .out = mx_ones(.shape = MX_DIMS(4)),
             .w = mx_ones(.shape = MX_DIMS(4)), .dense = mx_dense(4), .row = mx_ones(.shape = MX_DIMS(1, 4))};
    mx_attach_grad(j.w, MX_GRAD_WRITE);
    mx_initialize(j.dense, NULL, mx_cpu(0));
    report("add of 4 numbers into an array", add_out, &j, seconds);
    report("add of 4 numbers, new array", add, &j, seconds);
    report("the same, recorded", add_recorded, &j, seconds);
    report("the same, recorded, with backward", add_backward, &j, seconds);
    report("a dense layer, 4 to 4", dense, &j, seconds);

    char self[4096], path[4200];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length > 0) {
        self[length] = 0;
        const double nothing = start_time(self, "--nothing"), first = start_time(self, "--add");
        printf("%-44s %8.2f ms (%.2f ms of them without a call)\n", "a program that adds two numbers", 1e3 * first,
               1e3 * nothing);
        snprintf(path, sizeof path, "%s/../lib/libgluon.so", dirname(self));
        const double bytes = loaded_bytes(path);
        if (bytes > 0)
            printf("%-44s %8.2f MB\n", "the library, as loaded", 1e-6 * bytes);
    }
    return mx_check("bench_invoke");
}
