/* The command: generated calls for every operator (see garbage.h).
 *
 *     garbage [-n CALLS] [-s SEED] [OPERATOR...]      calls per operator (default 50)
 *     garbage -p PROGRAMS [-s SEED]                   random programs of several operators (see program.h)
 *     garbage -f CALLS [-s SEED] [FUNCTION...]        calls of every public C function (see functions.h)
 *     garbage -c CALLS [-s SEED]                      command lines of every subcommand of gluon (see command.h)
 *
 * With -g everything is computed on gpu(0).  Each operator runs in a child process whose current call is in shared memory: a signal or a hang is reported with the
 * call that caused it, and the others still run.  Exit status 1 if anything was found.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "command.h"
#include "functions.h"
#include "garbage.h"
#include "program.h"

#define SECONDS_PER_CALL 20
#define PRINTED 5
#define MEMORY ((size_t)256 << 20)        /* of one array */
#define FUNCTION_MEMORY ((size_t)4 << 20) /* the same in calls of functions, whose buffers have this size */

/* What parent and child share. */
static struct shared {
    char story[2048]; /* the call that runs now */
    long calls, findings;
    int function; /* the one that runs now */
} * shared;

const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1:detect_leaks=1:exitcode=99"; }
const char *__ubsan_default_options(void);
const char *__ubsan_default_options(void) { return "exitcode=99"; }

static uint64_t seed_of(const char *name, uint64_t seed)
{
    uint64_t h = 14695981039346656037u ^ seed;
    for (const char *p = name; *p; p++)
        h = (h ^ (unsigned char)*p) * 1099511628211u;
    return h | 1;
}

static bool on_gpu; /* -g */
static char **chosen_names;
static int n_chosen;

static bool named(const char *name, int count, char **names)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(names[i], name))
            return true;
    return count == 0;
}

static void child(mx_op *op, long calls, uint64_t seed)
{
    garbage_dice dice = {.state = seed_of(mx_op_name(op), seed)};
    long findings = 0;
    mx_alloc_set_limit(MEMORY);
    for (long i = 0; i < calls; i++) {
        garbage_call call;
        if (!garbage_make(&call, op, &dice))
            continue;
        memcpy(shared->story, call.story, sizeof call.story);
        shared->calls++;
        alarm(SECONDS_PER_CALL);
        const char *finding = garbage_run(&call);
        alarm(0);
        if (finding && ++findings <= PRINTED)
            printf("%s\n    %s\n", call.story, finding);
        garbage_free(&call);
    }
    shared->findings += findings;
}

/* Programs until `count` have run, from number shared->calls on. */
static void child_programs(long count, uint64_t seed)
{
    long findings = 0;
    mx_alloc_set_limit(MEMORY);
    while (shared->calls < count) {
        static program p;
        garbage_dice dice = {.state = (seed * 1000003 + (uint64_t)shared->calls++) * 2654435761u | 1};
        for (int i = 0; i < 8; i++)
            garbage_roll(&dice, 2);
        const bool made = program_make(&p, &dice);
        memcpy(shared->story, p.story, sizeof p.story);
        alarm(SECONDS_PER_CALL);
        const char *finding = made ? program_run(&p) : NULL;
        alarm(0);
        if (finding && ++findings <= PRINTED)
            printf("program %ld\n%s  %s\n", shared->calls - 1, p.story, finding);
        program_free(&p);
    }
    shared->findings += findings;
}

/* Operators from number shared->function on, in one process: starting a GPU takes long. */
static void child_operators(long calls, uint64_t seed)
{
    mx_op *op;
    for (; (op = mx_op_at(shared->function)); shared->function++) {
        if (!named(mx_op_name(op), n_chosen, chosen_names))
            continue;
        child(op, calls, seed);
        mx_scoped()
            if (mx_item(mx_array_to(mx_array_scalar(3), mx_gpu(0))) != 3) {
                printf("%s: the device does not work any more: %s\n", mx_op_name(op), mx_error_message());
                exit(4);
            }
    }
    mx_error_clear();
}

/* Functions from number shared->function on. */
static void child_functions(long calls, uint64_t seed)
{
    mx_alloc_set_limit(FUNCTION_MEMORY);
    if (!garbage_folder_enter())
        exit(3);
    for (const garbage_function *f; (f = &garbage_functions[shared->function])->name; shared->function++) {
        long findings = 0;
        for (long i = 0; named(f->name, n_chosen, chosen_names) && i < calls; i++) {
            garbage_dice dice = {.state = (seed_of(f->name, seed) + (uint64_t)i) * 2654435761u | 1};
            for (int k = 0; k < 8; k++)
                garbage_roll(&dice, 2);
            snprintf(shared->story, sizeof shared->story, "%s, call %ld", f->name, i);
            shared->calls++;
            alarm(SECONDS_PER_CALL);
            const char *finding = garbage_function_run(f, &dice);
            alarm(0);
            if (finding && ++findings <= PRINTED)
                printf("%s\n    %s\n", shared->story, finding), fflush(stdout);
        }
        shared->findings += findings;
    }
    garbage_folder_leave();
}

/* In a child: calls of op, or if it is NULL programs, or functions if these were asked for. */
static void run_apart(mx_op *op, long calls, uint64_t seed, bool functions)
{
    fflush(stdout);
    shared->story[0] = 0;
    pid_t pid = fork();
    if (pid == 0) {
        if (on_gpu)
            mx_set_current_context(mx_gpu(0));
        if (op)
            child(op, calls, seed);
        else if (functions && on_gpu)
            child_operators(calls, seed);
        else if (functions)
            child_functions(calls, seed);
        else
            child_programs(calls, seed);
        exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (status == 0)
        return;
    shared->findings++;
    if (WIFSIGNALED(status))
        printf("%s\n    %s\n", shared->story,
               WTERMSIG(status) == SIGALRM ? "did not end" : strsignal(WTERMSIG(status)));
    else
        printf("%s\n    exit status %d\n", shared->story, WEXITSTATUS(status));
}

static int run_operators_on_gpu(long calls, uint64_t seed)
{
    while (mx_op_at(shared->function)) { /* once more after a signal */
        run_apart(NULL, calls, seed, true);
        shared->function++;
    }
    printf("garbage: gpu(0), %ld calls, %ld findings\n", shared->calls, shared->findings);
    return shared->findings != 0;
}

static int run_functions(long calls, uint64_t seed)
{
    while (garbage_functions[shared->function].name) { /* once more after a signal */
        run_apart(NULL, calls, seed, true);
        shared->function += garbage_functions[shared->function].name != NULL;
    }
    printf("garbage: %d functions, %ld calls, %ld findings\n", shared->function, shared->calls, shared->findings);
    return shared->findings != 0;
}

/* One command line in a child; it ends with a status of the command. */
static void run_command(char **words)
{
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(SECONDS_PER_CALL);
        exit(garbage_command_run(words));
    }
    int status = 0;
    waitpid(pid, &status, 0);
    shared->calls++;
    if (WIFEXITED(status) && WEXITSTATUS(status) <= 2)
        return;
    shared->findings++;
    printf("%s\n    %s %d\n", shared->story, WIFSIGNALED(status) ? "signal" : "exit status",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static int run_commands(long calls, uint64_t seed)
{
    if (!garbage_folder_enter())
        return 3;
    mx_alloc_set_limit(MEMORY);
    for (int number = 0; number < garbage_command_count(); number++)
        for (long i = 0; i < calls; i++) {
            char *words[GARBAGE_WORDS];
            garbage_dice dice = {.state = ((seed * 1000 + (uint64_t)number) * 1000003 + (uint64_t)i) * 2654435761u | 1};
            for (int k = 0; k < 8; k++)
                garbage_roll(&dice, 2);
            garbage_command_make(&dice, number, words, shared->story, sizeof shared->story);
            run_command(words);
        }
    garbage_folder_leave();
    printf("garbage: %d commands, %ld calls, %ld findings\n", garbage_command_count(), shared->calls, shared->findings);
    return shared->findings != 0;
}

int main(int argc, char **argv)
{
    long calls = 50, programs = 0, functions = 0, commands = 0;
    uint64_t seed = 1;
    for (int option; (option = getopt(argc, argv, "n:s:p:f:c:g")) != -1;) {
        if (option == 'n')
            calls = atol(optarg);
        else if (option == 'p')
            programs = atol(optarg);
        else if (option == 'f')
            functions = atol(optarg);
        else if (option == 'g')
            on_gpu = true;
        else if (option == 'c')
            commands = atol(optarg);
        else if (option == 's')
            seed = strtoull(optarg, NULL, 10);
        else
            return 2;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    chosen_names = argv + optind, n_chosen = argc - optind;
    if (functions)
        return run_functions(functions, seed);
    if (commands)
        return run_commands(commands, seed);
    while (shared->calls < programs) /* once more after a signal */
        run_apart(NULL, programs, seed, false);
    if (programs) {
        printf("garbage: %ld programs, %ld findings\n", shared->calls, shared->findings);
        return shared->findings != 0;
    }
    if (on_gpu)
        return run_operators_on_gpu(calls, seed);
    int operators = 0;
    mx_op *op;
    for (int i = 0; (op = mx_op_at(i)); i++)
        if (named(mx_op_name(op), n_chosen, chosen_names))
            operators++, run_apart(op, calls, seed, false);
    printf("garbage: %d operators, %ld calls, %ld findings\n", operators, shared->calls, shared->findings);
    return shared->findings != 0;
}
