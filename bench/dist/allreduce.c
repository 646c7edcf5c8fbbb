/* All-reduce of 1 kB to 256 MB: ours beside MPI's own blocking call, in turns.
 *
 *     mpirun -np 2 build/bench/allreduce
 *
 * Columns: microseconds of one exchange, the best of several rounds; ratio: MPI's time / ours.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <gluon.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static double ours(mx_array *x, int repeats)
{
    mx_comm_barrier(mx_comm_world());
    const double start = MPI_Wtime();
    for (int i = 0; i < repeats; i++)
        mx_comm_all_reduce(mx_comm_world(), x, MX_SUM);
    return (MPI_Wtime() - start) / repeats;
}

static double theirs(float *x, int64_t count, int repeats)
{
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int i = 0; i < repeats; i++)
        MPI_Allreduce(MPI_IN_PLACE, x, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return (MPI_Wtime() - start) / repeats;
}

static void measure(int64_t bytes)
{
    const int rounds = bytes < 1 << 20 ? 60 : 7; /* the best counts: other programs only make it slower */
    MX_SCOPE;
    const int64_t count = bytes / 4;
    mx_array *x = mx_zeros(.shape = MX_DIMS(count));
    float *memory = calloc((size_t)count, sizeof *memory);
    const int repeats = bytes < 1 << 20 ? 20 : 3;
    double best[2] = {1e9, 1e9};
    for (int r = 0; memory && r < rounds; r++) {
        const double a = ours(x, repeats), b = theirs(memory, count, repeats);
        best[0] = a < best[0] ? a : best[0], best[1] = b < best[1] ? b : best[1];
    }
    if (mx_rank() == 0)
        printf("%9lld kB %12.2f %12.2f %8.2f\n", (long long)bytes / 1024, 1e6 * best[0], 1e6 * best[1],
               best[1] / best[0]);
    free(memory);
}

int main(void)
{
    if (mx_world_size() < 2) {
        fprintf(stderr, "allreduce: start it with mpirun -np 2\n");
        return mx_check("allreduce") || 1;
    }
    if (mx_rank() == 0)
        printf("%12s %12s %12s %8s\n", "", "ours, us", "MPI, us", "ratio");
    for (int64_t bytes = 1024; bytes <= 256 << 20; bytes *= 4)
        measure(bytes);
    return mx_check("allreduce");
}
