/* Messages between the processes of a program that was started several times: by mpirun, srun or `gluon run`.
 *
 *     mx_comm *world = mx_comm_world();
 *     mx_comm_all_reduce(world, gradient, MX_SUM);            every process gets the sum of all
 *     mx_comm_work *work = mx_comm_all_reduce_start(world, gradient, MX_SUM);
 *     ...                                                      something else, meanwhile
 *     mx_comm_wait(work);
 *
 * All processes make the same calls in the same order.  A process that was started alone is rank 0 of 1: the same
 * program runs there, and messages cost nothing.  If a process fails, the calls of the others fail with an error
 * (MX_ERR_COMM) that names its rank and its message.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_COMM_H
#define GLUON_COMM_H

#include "gluon/array.h"

typedef struct mx_comm mx_comm;           /* the processes that exchange messages */
typedef struct mx_comm_work mx_comm_work; /* an exchange that goes on while the program does */
typedef enum mx_reduction { MX_SUM, MX_MEAN, MX_MIN, MX_MAX, MX_PRODUCT } mx_reduction;

/* ---- who we are -------------------------------------------------------------------------------------------- */
/* All processes.  NULL with an error if there are others but MPI is missing.  Owned by the library. */
MX_API mx_comm *mx_comm_world(void);
MX_API const char *mx_comm_name(const mx_comm *comm); /* "mpi", or "alone": one process */
MX_API int mx_comm_rank(const mx_comm *comm);         /* 0 .. size - 1 */
MX_API int mx_comm_size(const mx_comm *comm);
/* Of the processes on this machine. */
MX_API int mx_comm_local_rank(const mx_comm *comm);
MX_API int mx_comm_local_size(const mx_comm *comm);
MX_API int mx_rank(void);       /* of the world; -1 with an error */
MX_API int mx_world_size(void); /* -1 with an error */

/* ---- exchanges --------------------------------------------------------------------------------------------- */
/* Arrays are dense, and have the same type and are on the same kind of device on all processes.  GPUs exchange by NCCL if
 * it is installed and every process has a GPU of its own, otherwise through host memory.  Sums of 16-bit floats are rounded
 * at every addition.  Sums are the same bits on all processes and in every run with as many of them. */
MX_API mx_code mx_comm_all_reduce(mx_comm *comm, mx_array *x, mx_reduction how); /* in place */
MX_API mx_code mx_comm_broadcast(mx_comm *comm, mx_array *x, int root);          /* x of the others is overwritten */
/* Concatenates along the first axis, in the order of ranks; only that axis may differ between processes. */
MX_API mx_array *mx_comm_all_gather(mx_comm *comm, mx_array *x);
/* The sum, of which process i gets part i of `size` equal parts of the first axis. */
MX_API mx_array *mx_comm_reduce_scatter(mx_comm *comm, mx_array *x, mx_reduction how);
/* Part i of `size` equal parts of the first axis goes to process i; the result has the parts from all. */
MX_API mx_array *mx_comm_all_to_all(mx_comm *comm, mx_array *x);
/* The same with parts of different sizes: rows[i] rows of the first axis go to process i.  received: (size) rows that came
 * from each process, or NULL. */
MX_API mx_array *mx_comm_all_to_all_rows(mx_comm *comm, mx_array *x, const int64_t *rows, int64_t *received);
MX_API mx_code mx_comm_barrier(mx_comm *comm); /* returns when all processes have called it */
/* *bytes of the root, of any length, on all processes; *bytes is replaced by memory of the scope. */
MX_API mx_code mx_comm_broadcast_bytes(mx_comm *comm, const void **bytes, size_t *count, int root);

/* ---- exchanges in the background --------------------------------------------------------------------------- */
/* The array must not be used before mx_comm_wait(); works of one communicator may be waited for in any order. */
MX_API mx_comm_work *mx_comm_all_reduce_start(mx_comm *comm, mx_array *x, mx_reduction how);
MX_API mx_comm_work *mx_comm_broadcast_start(mx_comm *comm, mx_array *x, int root);
MX_API bool mx_comm_done(const mx_comm_work *work); /* mx_comm_wait() would return at once */
MX_API mx_code mx_comm_wait(mx_comm_work *work);    /* the error of the exchange, if it failed */

/* ---- the end ----------------------------------------------------------------------------------------------- */
/* This process is about to fail: the others get an error with the message.  Exiting with a status other than 0 does the
 * same, and ends those that do not end by themselves. */
MX_API void mx_comm_fail(const char *message);
/* Waits for all others and ends the communication; exit() does it as well. */
MX_API mx_code mx_comm_shutdown(void);

#endif
