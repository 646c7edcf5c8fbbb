/* The number of the active mutant and the marks of reached ones, in a file that the runner maps, too.  See mutate.py.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define MARKS 4096 /* more than there are mutants */

/* mutant.h declares the first one constant. */
static struct {
    int number[PAGE / sizeof(int)];
    int reached[MARKS];
} state __attribute__((aligned(PAGE), used));
__asm__(".globl mx_mutant_number\n.hidden mx_mutant_number\n.set mx_mutant_number, state\n"
        ".globl mx_mutant_reached\n.hidden mx_mutant_reached\n.set mx_mutant_reached, state + 4096\n");

__attribute__((constructor)) static void map_state(void)
{
    const char *path = getenv("GLUON_MUTANT_FILE");
    const int file = path ? open(path, O_RDWR) : -1;
    if (file < 0)
        return;
    if (mmap(&state, sizeof state, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
        abort();
    close(file);
}
