/* What carries messages between processes: one table, as a device has one.
 *
 *     alone.c      one process: everything is a copy
 *     mpi/mpi.c    libgluon_mpi.so, which the library opens at the first use (load.c), so that nobody else needs MPI
 *
 * Transports work on host memory; devices may exchange theirs by themselves (lane.c).  All calls of one transport come from one thread at a time (engine.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_COMM_TRANSPORT_H
#define MX_COMM_TRANSPORT_H

#include "gluon/array.h"
#include "gluon/comm.h"

typedef enum mx_exchange_kind {
    MX_EXCHANGE_ALL_REDUCE,
    MX_EXCHANGE_BROADCAST,
    MX_EXCHANGE_ALL_GATHER,
    MX_EXCHANGE_REDUCE_SCATTER,
    MX_EXCHANGE_ALL_TO_ALL,
    MX_EXCHANGE_BARRIER
} mx_exchange_kind;

#define MX_COMM_CHANNELS 8 /* exchanges of different channels may overtake each other */

/* Counts are elements:  all-reduce, broadcast: of the array;  all-gather: of what this process sends;
 * reduce-scatter, all-to-all: of one part. */
typedef struct mx_exchange {
    mx_exchange_kind kind;
    int channel;
    const void *from; /* may be `to` for all-reduce; unused by broadcast */
    void *to;
    int64_t count;
    const int64_t *counts;   /* (size) all-gather: of every process; all-to-all: to each; NULL: all the same */
    const int64_t *received; /* (size) all-to-all with counts: from each process */
    mx_dtype dtype;
    mx_reduction how; /* MX_MEAN is a sum here */
    int root;
    bool beside; /* devices make it: the transport does nothing, the engine counts it */
} mx_exchange;

/* A short message about the state of a process; delivered although nobody waits for it. */
typedef enum mx_notice_kind { MX_NOTICE_FAILED = 1, MX_NOTICE_ENDS, MX_NOTICE_LIVES } mx_notice_kind;
typedef struct mx_notice {
    int32_t kind, from;
    int32_t lost;                   /* failed: it is silent, and someone else says so */
    int64_t done[MX_COMM_CHANNELS]; /* exchanges that it has begun, per channel */
    char text[1024];
} mx_notice;

typedef struct mx_transport {
    const char *name;
    int rank, size, local_rank, local_size;
    bool threads; /* a thread of the engine may call it; false: only the calling thread may */
    bool anyone;  /* any thread may call it, one at a time: those that wait help */
    mx_code (*start)(const mx_exchange *what, void **request); /* begins; *request NULL: it is done already */
    /* 1: done, and the request freed; 0: not yet; -1: failed, with an error. */
    int (*test)(void **request);
    void (*tell)(int to, const mx_notice *notice);
    bool (*hear)(mx_notice *notice); /* false: there is none */
    void (*abort)(int status);       /* ends all processes */
    void (*end)(void);               /* all processes call it */
} mx_transport;

extern const mx_transport mx_alone;

/* ---- the border to libgluon_mpi.so: as that of the CUDA part (cuda/plugin.h) ---------------------------------- */
#define MX_MPI_BORDER 4
typedef struct mx_mpi_library {
    int border; /* MX_MPI_BORDER of the caller */
    mx_code (*error_set)(mx_code code, const char *format, ...);
    const char *version; /* of the library: all processes must have the same */
} mx_mpi_library;
#define MX_MPI_OPEN "mx_mpi_open"
/* Initialises MPI in the calling thread.  NULL with an error. */
typedef const mx_transport *(*mx_mpi_open_fn)(const mx_mpi_library *library);

/* load.c: the function of libgluon_mpi.so; NULL: `why` says what is missing. */
mx_mpi_open_fn mx_mpi_part(const char **why);

#endif
