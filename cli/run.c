/* gluon run: starts a program as several processes, with the launcher of this machine.
 *
 *     gluon run -n 2 -- python train.py  -->  mpirun -np 2 gluon run --rank -- python train.py
 *                                               +--> rank 0: python train.py, its lines with "[0] " before them
 *                                               +--> rank 1: ...
 *
 * The inner gluon, one per process, passes lines on and remembers the last ones: if its program fails it shows them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/launched.h"
#include "cli.h"

/* ---- the launcher ---------------------------------------------------------------------------------------------- */

typedef enum launcher { OPEN_MPI, HYDRA, SLURM, NONE } launcher;

static bool in_path(const char *name)
{
    char file[4096];
    for (const char *at = getenv("PATH"); at && *at; at += strcspn(at, ":"), at += *at == ':') {
        snprintf(file, sizeof file, "%.*s/%s", (int)strcspn(at, ":"), at, name);
        if (!access(file, X_OK))
            return true;
    }
    return false;
}

static bool prints(const char *command, const char *word)
{
    char line[512];
    bool found = false;
    FILE *output = popen(command, "r");
    while (output && fgets(line, sizeof line, output))
        found |= strcasestr(line, word) != NULL;
    if (output)
        pclose(output);
    return found;
}

/* Inside of a Slurm job srun knows its machines; elsewhere mpirun is what there is. */
static launcher find_launcher(const char *wanted)
{
    const bool mpirun = in_path("mpirun"), srun = in_path("srun");
    if (wanted ? !strcmp(wanted, "srun") : srun && (getenv("SLURM_JOB_ID") || !mpirun))
        return srun ? SLURM : NONE;
    if (!mpirun)
        return NONE;
    return prints("mpirun --version 2>&1", "Open MPI") ? OPEN_MPI : HYDRA;
}

typedef struct words {
    char *word[512];
    int n;
} words;

static void add(words *line, const char *word)
{
    if (line->n < (int)(sizeof line->word / sizeof *line->word) - 1)
        line->word[line->n++] = (char *)(uintptr_t)word;
    line->word[line->n] = NULL;
}

static void add_hosts(words *line, launcher kind, const char *hosts)
{
    if (!hosts)
        return;
    add(line, kind == OPEN_MPI ? "--host" : kind == HYDRA ? "-hosts" : "--nodelist");
    add(line, hosts);
    static const char *const passed[] = {"PATH", "PYTHONPATH", "LD_LIBRARY_PATH"};
    for (size_t i = 0; kind == OPEN_MPI && i < sizeof passed / sizeof *passed; i++)
        if (getenv(passed[i]))
            add(line, "-x"), add(line, passed[i]);
}

/* Containers run as root and on few CPUs; threads are divided by the library, so processes are not bound. */
static void prepare_environment(void)
{
    if (!geteuid()) {
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    }
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
    setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 0);
    /* mpirun notices a machine that is gone after 10 seconds; by default that takes minutes. */
    setenv("OMPI_MCA_oob_tcp_keepalive_time", "5", 0);
    setenv("OMPI_MCA_oob_tcp_keepalive_intvl", "1", 0);
    setenv("OMPI_MCA_oob_tcp_keepalive_probes", "5", 0);
    setenv("PYTHONUNBUFFERED", "1", 0); /* lines come when they are printed */
}

static int launch(const cli_args *args, int64_t processes)
{
    static char self[4096], count[32];
    words line = {.n = 0};
    const launcher kind = find_launcher(cli_option_of(args, "--launcher"));
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (kind == NONE || length < 0) {
        fprintf(stderr,
                "gluon run: neither mpirun nor srun was found; install MPI (Debian: apt-get install openmpi-bin)\n");
        return CLI_FAILED;
    }
    snprintf(count, sizeof count, "%lld", (long long)processes);
    add(&line, kind == SLURM ? "srun" : "mpirun");
    add(&line, kind == SLURM ? "--ntasks" : "-np");
    add(&line, count);
    add_hosts(&line, kind, cli_option_of(args, "--host"));
    add(&line, self), add(&line, "run"), add(&line, "--rank"), add(&line, "--");
    for (char **word = args->rest; *word; word++)
        add(&line, *word);
    prepare_environment();
    if (cli_option_of(args, "--show")) {
        for (int i = 0; i < line.n; i++)
            printf("%s%s", i ? " " : "", line.word[i]);
        printf("\n");
        return CLI_OK;
    }
    execvp(line.word[0], line.word);
    fprintf(stderr, "gluon run: %s cannot be started: %s\n", line.word[0], strerror(errno));
    return CLI_FAILED;
}

/* ---- one process ------------------------------------------------------------------------------------------------ */

enum { LINE = 4096, LAST = 20 };

typedef struct stream {
    int from; /* -1: ended */
    FILE *to;
    char line[LINE]; /* that is not complete yet */
    size_t length;
} stream;

static struct {
    char text[LAST][LINE]; /* the last lines, in a ring */
    int64_t count;
} last;

static volatile sig_atomic_t child;
static void pass_on(int number)
{
    if (child > 0)
        kill(child, number);
}

static void end_line(stream *s, int rank)
{
    s->line[s->length] = 0;
    fprintf(s->to, "[%d] %s\n", rank, s->line);
    fflush(s->to);
    memcpy(last.text[last.count++ % LAST], s->line, s->length + 1);
    s->length = 0;
}

static void read_some(stream *s, int rank)
{
    char bytes[4096];
    const ssize_t n = read(s->from, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR)
        return;
    if (n <= 0) {
        if (s->length)
            end_line(s, rank);
        close(s->from);
        s->from = -1;
        return;
    }
    for (ssize_t i = 0; i < n; i++) {
        if (bytes[i] == '\n' || s->length == LINE - 1)
            end_line(s, rank);
        if (bytes[i] != '\n')
            s->line[s->length++] = bytes[i];
    }
}

static void copy_lines(stream *streams, int rank)
{
    while (streams[0].from >= 0 || streams[1].from >= 0) {
        struct pollfd wait[2] = {{streams[0].from, POLLIN, 0}, {streams[1].from, POLLIN, 0}};
        if (poll(wait, 2, -1) < 0 && errno != EINTR)
            return;
        for (int i = 0; i < 2; i++)
            if (wait[i].fd >= 0 && wait[i].revents)
                read_some(&streams[i], rank);
    }
}

static int show_end(int status, int rank)
{
    if (WIFEXITED(status) && !WEXITSTATUS(status))
        return CLI_OK;
    if (WIFSIGNALED(status))
        fprintf(stderr, "gluon run: rank %d was killed by signal %d (%s)", rank, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    else
        fprintf(stderr, "gluon run: rank %d ended with status %d", rank, WEXITSTATUS(status));
    fprintf(stderr, last.count ? "; its last lines:\n" : "; it printed nothing\n");
    for (int64_t i = last.count > LAST ? last.count - LAST : 0; i < last.count; i++)
        fprintf(stderr, "    %s\n", last.text[i % LAST]);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int start_child(char **command, int out[2], int err[2])
{
    if (pipe(out) || pipe(err))
        return -1;
    const pid_t made = fork();
    if (made)
        return made;
    dup2(out[1], 1), dup2(err[1], 2);
    for (int i = 0; i < 2; i++)
        close(out[i]), close(err[i]);
    execvp(command[0], command);
    fprintf(stderr, "gluon run: %s cannot be started: %s\n", command[0], strerror(errno));
    _exit(127);
}

static int run_rank(char **command)
{
    static stream streams[2];
    int out[2], err[2], status = 0;
    const int rank = mx_launched_get()->rank;
    for (size_t i = 0; i < 3; i++)
        signal((int[]){SIGTERM, SIGINT, SIGHUP}[i], pass_on);
    child = start_child(command, out, err);
    if (child < 0) {
        fprintf(stderr, "gluon run: a process could not be started: %s\n", strerror(errno));
        return CLI_FAILED;
    }
    close(out[1]), close(err[1]);
    streams[0] = (stream){.from = out[0], .to = stdout};
    streams[1] = (stream){.from = err[0], .to = stderr};
    copy_lines(streams, rank);
    while (waitpid((pid_t)child, &status, 0) < 0 && errno == EINTR)
        ;
    return show_end(status, rank);
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static int run(const cli_args *args)
{
    int64_t processes;
    if (!args->rest || !args->rest[0])
        return cli_usage(args, "there is no program: gluon run %s", args->command->usage);
    if (cli_option_of(args, "--rank"))
        return run_rank(args->rest);
    if (!cli_number(args, "--processes", 0, 1, &processes))
        return CLI_USAGE;
    if (!processes)
        return cli_usage(args, "how many processes? -n N");
    return launch(args, processes);
}

static const cli_option options[] = {
    {"--processes", "N", "how many (-n N)"},
    {"--host", "A[:N],B[:N]...", "machines to run on; otherwise this one, or those of the Slurm job"},
    {"--launcher", "mpirun|srun", "what starts them; otherwise srun inside of a Slurm job, else mpirun"},
    {"--show", NULL, "print the command line of the launcher, start nothing"},
    {"--rank", NULL, "run one process and put its rank before its lines (what the launcher starts)"},
    {NULL, NULL, NULL},
};
const cli_command cli_run = {"run", "-n N [--host A,B] -- PROGRAM ARGUMENT...",
                             "start a program as several processes\n\n"
                             "Each line of output has the rank of its process before it.  If a process fails, its last lines\n"
                             "are shown and the others are ended.",
                             0, CLI_REST, options, run};
