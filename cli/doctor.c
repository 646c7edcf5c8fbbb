/* gluon doctor: what this build and this machine support.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/flags.h"
#include "base/gzip.h"
#include "cli.h"
#include "comm/transport.h"
#include "cpu/kernel.h"

/* True if a program of that name is in one of the folders of PATH. */
static bool in_path(const char *program)
{
    const char *path = getenv("PATH");
    char whole[4096];
    for (; path && *path; path += strcspn(path, ":"), path += *path == ':') {
        snprintf(whole, sizeof whole, "%.*s/%s", (int)strcspn(path, ":"), path, program);
        if (!access(whole, X_OK))
            return true;
    }
    return false;
}

static void print_libraries(void)
{
    const char *why;
    const struct {
        const char *name;
        bool present;
        const char *use;
    } rows[] = {
        {"zlib", mx_gzip_available(), "reading .gz data sets and compressed .npz files"},
#ifdef HAVE_JPEG
        {"libjpeg", true, "JPEG images"},
#else
        {"libjpeg", false, "JPEG images"},
#endif
#ifdef HAVE_PNG
        {"libpng", true, "PNG images"},
#else
        {"libpng", false, "PNG images"},
#endif
        {"MPI", mx_mpi_part(&why) != NULL, "programs as several processes"},
        {"mpirun", in_path("mpirun"), "starting them: gluon run"},
        {"dot", in_path("dot"), "drawings as .svg and .png"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        printf("  %-8s %-4s %s\n", rows[i].name, rows[i].present ? "yes" : "no", rows[i].use);
}

static int count_operators(void)
{
    int count = 0;
    while (mx_op_at(count))
        count++;
    return count;
}

/* A small matrix product: a machine that traps on the instructions it advertises fails here. */
static bool try_product(void)
{
    MX_SCOPE;
    mx_array *a = mx_ones(.shape = MX_DIMS(64, 64));
    return mx_item(mx_sum(mx_dot(a, a))) == 64.0 * 64 * 64;
}

static int run(const cli_args *args)
{
    (void)args;
    printf("gluon %s\n", mx_version());
    printf("operators          %d\n", count_operators());
    printf("instruction level  %s\n", mx_cpu_level());
    printf("threads            %d of %ld processors\n", mx_num_threads(), sysconf(_SC_NPROCESSORS_ONLN));
    printf("GPUs               %d\n", mx_num_gpus());
    printf("\nlibraries and programs\n");
    print_libraries();
    printf("\nenvironment variables\n");
    const mx_flag_row *flag;
    for (int i = 0; (flag = mx_flag_describe(i)); i++)
        printf("  %-28s %-10s %s\n", flag->name, *flag->value ? flag->value : "\"\"", flag->doc);
    const bool fine = try_product();
    printf("\nmatrix product: %s\n", fine ? "correct" : "WRONG");
    return fine ? CLI_OK : CLI_FAILED;
}

static const cli_option options[] = {{NULL, NULL, NULL}};

const cli_command cli_doctor = {"doctor", "", "Shows what this build and this machine support.", 0, 0, options, run};
