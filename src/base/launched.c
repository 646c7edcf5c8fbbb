/* The environment variables of launchers, in one table (see launched.h).  SPDX-License-Identifier: Apache-2.0 */
#include "base/launched.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct launcher {
    const char *rank, *size, *local_rank, *local_size;
} launcher;

/* The first one whose rank and size are set counts: Slurm's variables are also set around an mpirun inside of a job. */
static const launcher launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"},
};

static mx_launched found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* "4(x2)" of Slurm is 4. */
static int number(const char *name, int fallback)
{
    const char *text = getenv(name);
    char *end = NULL;
    const long value = text ? strtol(text, &end, 10) : -1;
    return !text || end == text || value < 0 || value > 1 << 24 ? fallback : (int)value;
}

static void read_all(void)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const launcher *l = &launchers[i];
        const int rank = number(l->rank, -1), size = number(l->size, 0);
        if (rank < 0 || size < 1 || rank >= size)
            continue;
        found = (mx_launched){rank, size, number(l->local_rank, 0), number(l->local_size, 0)};
        return;
    }
}

const mx_launched *mx_launched_get(void)
{
    pthread_once(&once, read_all);
    return &found;
}
