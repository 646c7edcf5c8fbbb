/* Sums of large arrays around a ring of n processes.
 *
 *     x = n chunks.  n - 1 steps: each process sends a chunk to the next one, which adds it to its own;
 *     then chunk c is complete at one process, and n - 1 more steps bring it to all others.
 *
 * Every process sends 2 (n - 1) / n of the array, the least that is possible.  A chunk is summed along one path, so all
 * processes have the same bits, in every run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "comm/mpi/ring.h"

#include <limits.h>
#include <stdlib.h>

#define LARGE (64 * 1024) /* bytes from which a ring is faster than MPI's general algorithms */

struct mx_ring {
    char *x;
    char *room; /* for one chunk */
    int64_t count, item;
    mx_dtype dtype;
    MPI_Comm comm;
    int tag, rank, size;
    int step; /* 0 .. 2 (size - 1) */
    MPI_Request pair[2];
};

bool mx_ring_suits(int64_t count, mx_dtype dtype)
{
    return (dtype == MX_FLOAT32 || dtype == MX_FLOAT64) && count * (dtype == MX_FLOAT64 ? 8 : 4) >= LARGE &&
           count <= INT_MAX;
}

static int64_t chunk_begin(const mx_ring *r, int64_t c) { return r->count * c / r->size; }
static int chunk_of(const mx_ring *r, int back) { return ((r->rank - back) % r->size + r->size) % r->size; }
static int chunk_count(const mx_ring *r, int c) { return (int)(chunk_begin(r, c + 1) - chunk_begin(r, c)); }
static char *chunk_at(const mx_ring *r, int c) { return r->x + chunk_begin(r, c) * r->item; }

/* In the first half of the steps chunks are added, in the second half replaced. */
static bool adds(const mx_ring *r) { return r->step < r->size - 1; }
static int incoming(const mx_ring *r) { return chunk_of(r, adds(r) ? r->step + 1 : r->step - (r->size - 1)); }

static int begin_step(mx_ring *r)
{
    const MPI_Datatype type = r->dtype == MX_FLOAT64 ? MPI_DOUBLE : MPI_FLOAT;
    const int in = incoming(r), out = (in + 1) % r->size;
    const int next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
    int status =
        MPI_Irecv(adds(r) ? r->room : chunk_at(r, in), chunk_count(r, in), type, before, r->tag, r->comm, &r->pair[0]);
    if (status == MPI_SUCCESS)
        status = MPI_Isend(chunk_at(r, out), chunk_count(r, out), type, next, r->tag, r->comm, &r->pair[1]);
    return status;
}

static void add_floats(float *restrict to, const float *restrict from, int n)
{
    for (int i = 0; i < n; i++)
        to[i] += from[i];
}

static void add_doubles(double *restrict to, const double *restrict from, int n)
{
    for (int i = 0; i < n; i++)
        to[i] += from[i];
}

static void end_step(mx_ring *r)
{
    const int in = incoming(r);
    if (adds(r) && r->dtype == MX_FLOAT64)
        add_doubles((double *)chunk_at(r, in), (const double *)r->room, chunk_count(r, in));
    else if (adds(r))
        add_floats((float *)chunk_at(r, in), (const float *)r->room, chunk_count(r, in));
    r->step++;
}

static void free_ring(mx_ring *r)
{
    free(r->room);
    free(r);
}

mx_ring *mx_ring_start(void *x, int64_t count, mx_dtype dtype, MPI_Comm comm, int tag, int *status)
{
    mx_ring *r = calloc(1, sizeof *r);
    *status = MPI_ERR_NO_MEM;
    if (!r)
        return NULL;
    *r = (mx_ring){
        .x = x, .count = count, .item = dtype == MX_FLOAT64 ? 8 : 4, .dtype = dtype, .comm = comm, .tag = tag};
    MPI_Comm_rank(comm, &r->rank);
    MPI_Comm_size(comm, &r->size);
    r->room = malloc((size_t)((count / r->size + 1) * r->item));
    if (r->room)
        *status = begin_step(r);
    if (*status == MPI_SUCCESS)
        return r;
    free_ring(r);
    return NULL;
}

bool mx_ring_test(mx_ring *r, int *status)
{
    int done = 1;
    *status = MPI_SUCCESS;
    while (*status == MPI_SUCCESS) {
        *status = MPI_Testall(2, r->pair, &done, MPI_STATUSES_IGNORE);
        if (*status == MPI_SUCCESS && !done)
            return false;
        if (*status == MPI_SUCCESS)
            end_step(r);
        if (*status == MPI_SUCCESS && r->step == 2 * (r->size - 1))
            break;
        if (*status == MPI_SUCCESS)
            *status = begin_step(r);
    }
    free_ring(r);
    return true;
}
