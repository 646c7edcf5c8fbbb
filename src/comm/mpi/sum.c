/* Sums of arrays over n processes.  A sum is a list of steps; in each, a process sends a part of its array and receives one, which
 * it adds to its own or puts in place of it.
 *
 *     ring      x = n chunks.  n - 1 steps: each process sends a chunk to the next one, which adds it to its own;
 *               then chunk c is complete at one process, and n - 1 more steps bring it to all others.
 *               Every process sends 2 (n - 1) / n of the array, the least that is possible: for large arrays.
 *     doubling  pairs of processes exchange all they have and add it: neighbours, pairs of pairs ...: log2(n) steps, for small
 *               arrays.  If n is no power of two, some first hand their array to a neighbour and get the sum at the end.
 *
 * An element is summed along one path, or by both sides in the same order, so all processes have the same bits, in every run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "comm/mpi/sum.h"

#include <limits.h>
#include <stdlib.h>

#define NOBODY -1
#define SPARE_BYTES (4 << 20) /* room that is kept for the next sum */

typedef struct step {
    int to, from;              /* ranks; NOBODY: nothing is sent, nothing comes */
    int64_t out_at, out_count; /* elements */
    int64_t in_at, in_count;
    bool adds; /* false: what comes is put in place */
} step;

struct mx_sum {
    char *x;
    char *room; /* for what is added; owned */
    size_t room_bytes;
    int64_t count, item;
    mx_dtype dtype;
    MPI_Comm comm;
    int tag, rank, size;
    int steps, next; /* in all; the number of the one that runs */
    step (*step_of)(const mx_sum *sum, int i);
    step now;
    MPI_Request pair[2];
};

static mx_sum *spare; /* the last one that ended: small sums need no allocation */

bool mx_sum_suits(int64_t count, mx_dtype dtype)
{
    return (dtype == MX_FLOAT32 || dtype == MX_FLOAT64) && count <= INT_MAX;
}

/* ---- the ring ------------------------------------------------------------------------------------------------------- */

/* Bytes from which it is faster: its 2 (n - 1) messages cost more than log2(n) whole arrays below.  Of two processes both send as
 * much; there the limit is the size of messages that MPI sends without asking. */
static int64_t ring_bytes(int size)
{
    if (size == 2)
        return 3072;
    return size <= 16 ? 64 * 1024 : 4 * 1024 * (int64_t)size;
}

static int64_t chunk_begin(const mx_sum *s, int64_t c) { return s->count * c / s->size; }
static int64_t chunk_count(const mx_sum *s, int c) { return chunk_begin(s, c + 1) - chunk_begin(s, c); }
static int chunk_of(const mx_sum *s, int back) { return ((s->rank - back) % s->size + s->size) % s->size; }

static step ring_step(const mx_sum *s, int i)
{
    const bool adds = i < s->size - 1; /* the first half; in the second, complete chunks go around */
    const int in = chunk_of(s, adds ? i + 1 : i - (s->size - 1)), out = (in + 1) % s->size;
    return (step){.to = (s->rank + 1) % s->size, .from = (s->rank + s->size - 1) % s->size,
                  .out_at = chunk_begin(s, out), .out_count = chunk_count(s, out),
                  .in_at = chunk_begin(s, in), .in_count = chunk_count(s, in), .adds = adds};
}

/* ---- doubling ------------------------------------------------------------------------------------------------------- */

static int log2_below(int n)
{
    int log = 0;
    while (2 << log <= n)
        log++;
    return log;
}

/* The first 2 * extra processes form pairs, of which only the odd ones take part in the exchanges. */
static int number_of(int rank, int extra) { return rank < 2 * extra ? rank / 2 : rank - extra; }
static int rank_of(int number, int extra) { return number < extra ? 2 * number + 1 : number + extra; }

static step doubling_step(const mx_sum *s, int i)
{
    const int log = log2_below(s->size), extra = s->size - (1 << log), k = extra ? i - 1 : i;
    const bool paired = s->rank < 2 * extra, even = s->rank % 2 == 0;
    step made = {.to = NOBODY, .from = NOBODY, .out_count = s->count, .in_count = s->count, .adds = k < log};
    if (k >= 0 && k < log && !(paired && even))
        made.to = made.from = rank_of(number_of(s->rank, extra) ^ 1 << k, extra);
    else if (k < 0 && paired)
        *(even ? &made.to : &made.from) = s->rank ^ 1;
    else if (k == log && paired)
        *(even ? &made.from : &made.to) = s->rank ^ 1;
    return made;
}

/* ---- steps ---------------------------------------------------------------------------------------------------------- */

static char *at(const mx_sum *s, int64_t element) { return s->x + element * s->item; }

static int begin_step(mx_sum *s)
{
    const MPI_Datatype type = s->dtype == MX_FLOAT64 ? MPI_DOUBLE : MPI_FLOAT;
    const step *now = &s->now;
    int status = MPI_SUCCESS;
    s->now = s->step_of(s, s->next);
    s->pair[0] = s->pair[1] = MPI_REQUEST_NULL;
    if (now->from != NOBODY)
        status = MPI_Irecv(now->adds ? s->room : at(s, now->in_at), (int)now->in_count, type, now->from, s->tag,
                           s->comm, &s->pair[0]);
    if (status == MPI_SUCCESS && now->to != NOBODY)
        status = MPI_Isend(at(s, now->out_at), (int)now->out_count, type, now->to, s->tag, s->comm, &s->pair[1]);
    return status;
}

static void add_floats(float *restrict to, const float *restrict from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += from[i];
}

static void add_doubles(double *restrict to, const double *restrict from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += from[i];
}

static void end_step(mx_sum *s)
{
    const step *now = &s->now;
    s->next++;
    if (!now->adds || now->from == NOBODY)
        return;
    if (s->dtype == MX_FLOAT64)
        add_doubles((double *)at(s, now->in_at), (const double *)s->room, now->in_count);
    else
        add_floats((float *)at(s, now->in_at), (const float *)s->room, now->in_count);
}

/* ---- sums ----------------------------------------------------------------------------------------------------------- */

static void free_sum(mx_sum *s)
{
    if (!spare && s->room_bytes <= SPARE_BYTES) {
        spare = s;
        return;
    }
    free(s->room);
    free(s);
}

/* One with so much room; NULL: out of memory. */
static mx_sum *take(size_t bytes)
{
    mx_sum *s = spare ? spare : calloc(1, sizeof *s);
    spare = NULL;
    if (!s || s->room_bytes >= bytes)
        return s;
    free(s->room);
    s->room = malloc(bytes);
    s->room_bytes = s->room ? bytes : 0;
    if (s->room)
        return s;
    free(s);
    return NULL;
}

static void describe(mx_sum *s, void *x, int64_t count, mx_dtype dtype, MPI_Comm comm, int tag)
{
    s->x = x, s->count = count, s->dtype = dtype, s->comm = comm, s->tag = tag, s->next = 0;
    s->item = dtype == MX_FLOAT64 ? 8 : 4;
    if (count * s->item >= ring_bytes(s->size)) {
        s->step_of = ring_step;
        s->steps = 2 * (s->size - 1);
    } else {
        const int log = log2_below(s->size);
        s->step_of = doubling_step;
        s->steps = log + (s->size == 1 << log ? 0 : 2);
    }
}

mx_sum *mx_sum_start(void *x, int64_t count, mx_dtype dtype, MPI_Comm comm, int tag, int *status)
{
    int size, rank;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    const int64_t item = dtype == MX_FLOAT64 ? 8 : 4;
    mx_sum *s = take((size_t)(count * item >= ring_bytes(size) ? count / size + 1 : count + 1) * (size_t)item);
    *status = MPI_ERR_NO_MEM;
    if (!s)
        return NULL;
    s->size = size, s->rank = rank;
    describe(s, x, count, dtype, comm, tag);
    *status = begin_step(s);
    if (*status == MPI_SUCCESS)
        return s;
    free_sum(s);
    return NULL;
}

bool mx_sum_test(mx_sum *s, int *status)
{
    int done = 1;
    do {
        *status = MPI_Testall(2, s->pair, &done, MPI_STATUSES_IGNORE);
        if (*status == MPI_SUCCESS && !done)
            return false;
        if (*status == MPI_SUCCESS)
            end_step(s);
        if (*status == MPI_SUCCESS && s->next == s->steps)
            break;
        if (*status == MPI_SUCCESS)
            *status = begin_step(s);
    } while (*status == MPI_SUCCESS);
    free_sum(s);
    return true;
}
