/* The MPI part, libgluon_mpi.so.
 *
 *     sums of float32, float64  =  sends and receives (sum.c)
 *     other exchanges           =  MPI's nonblocking collectives
 *     channel c of the engine   =  a duplicate of MPI_COMM_WORLD
 *     notices                   =  messages on one more duplicate
 *
 * Errors of MPI are returned, not fatal.  MPI that someone else has initialised (mpi4py) is used as it is and is not
 * finalized here.  MPI has no 16-bit floats: their reductions are functions of ours.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/mpi/sum.h"
#include "comm/transport.h"
#include "ndarray/convert.h"
#include "ndarray/dtype.h"

#define NOTICES 64 /* notices that may be under way at once */

static mx_mpi_library library;
static mx_transport table;
static MPI_Comm channels[MX_COMM_CHANNELS], notices = MPI_COMM_NULL;
static MPI_Datatype half_type[2]; /* float16, bfloat16: two bytes each, told apart by the operation */
static MPI_Op half_op[2][4];      /* (type, reduction) */
static bool ours;                 /* MPI was initialised here */

static struct {
    MPI_Request request;
    mx_notice notice;
} sent[NOTICES];

/* Errors go to the library's record. */
mx_code mx_error_set(mx_code code, const char *format, ...)
{
    char text[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return library.error_set(code, "%s", text);
}

static mx_code check(int status, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (status == MPI_SUCCESS)
        return MX_OK;
    MPI_Error_string(status, text, &length);
    return mx_fail(MX_ERR_COMM,
                   "%s between processes: MPI failed: %s (do all processes exchange arrays of the same "
                   "shape? GLUON_COMM_CHECK=1 compares them)",
                   what, text);
}

/* ---- 16-bit floats ------------------------------------------------------------------------------------------------- */

static float reduced(float a, float b, int how)
{
    switch (how) {
    case 0: return a + b;
    case 1: return a < b || a != a ? a : b;
    case 2: return a > b || a != a ? a : b;
    default: return a * b;
    }
}

static void reduce_half(const void *in, void *inout, int n, mx_dtype dtype, int how)
{
    float a[512], b[512];
    const uint16_t *x = in;
    uint16_t *y = inout;
    for (int at = 0; at < n; at += 512) {
        const int m = n - at < 512 ? n - at : 512;
        mx_convert(a, MX_FLOAT32, x + at, dtype, m);
        mx_convert(b, MX_FLOAT32, y + at, dtype, m);
        for (int i = 0; i < m; i++)
            b[i] = reduced(a[i], b[i], how);
        mx_convert(y + at, dtype, b, MX_FLOAT32, m);
    }
}

#define HALF(name, dtype, how)                                                  \
    static void name(void *in, void *inout, int *n, MPI_Datatype *type)         \
    {                                                                           \
        (void)type;                                                             \
        reduce_half(in, inout, *n, dtype, how);                                 \
    }
HALF(half_sum, MX_FLOAT16, 0)
HALF(half_min, MX_FLOAT16, 1)
HALF(half_max, MX_FLOAT16, 2)
HALF(half_product, MX_FLOAT16, 3)
HALF(brain_sum, MX_BFLOAT16, 0)
HALF(brain_min, MX_BFLOAT16, 1)
HALF(brain_max, MX_BFLOAT16, 2)
HALF(brain_product, MX_BFLOAT16, 3)

static void make_half_ops(void)
{
    static MPI_User_function *const functions[2][4] = {{half_sum, half_min, half_max, half_product},
                                                       {brain_sum, brain_min, brain_max, brain_product}};
    for (int i = 0; i < 2; i++) {
        MPI_Type_contiguous(2, MPI_BYTE, &half_type[i]);
        MPI_Type_commit(&half_type[i]);
        for (int k = 0; k < 4; k++)
            MPI_Op_create(functions[i][k], 1, &half_op[i][k]);
    }
}

/* ---- types ---------------------------------------------------------------------------------------------------------- */

static MPI_Datatype type_of(mx_dtype dtype)
{
    switch (dtype) {
    case MX_FLOAT32: return MPI_FLOAT;
    case MX_FLOAT64: return MPI_DOUBLE;
    case MX_FLOAT16: return half_type[0];
    case MX_BFLOAT16: return half_type[1];
    case MX_INT32: return MPI_INT32_T;
    case MX_INT64: return MPI_INT64_T;
    case MX_INT8: return MPI_INT8_T;
    default: return MPI_UINT8_T;
    }
}

static MPI_Op op_of(mx_dtype dtype, mx_reduction how)
{
    const int k = how == MX_MIN ? 1 : how == MX_MAX ? 2 : how == MX_PRODUCT ? 3 : 0;
    if (mx_dtype_is_narrow(dtype))
        return half_op[dtype == MX_BFLOAT16][k];
    if (dtype == MX_BOOL)
        return k == 1 || k == 3 ? MPI_LAND : MPI_LOR;
    return k == 1 ? MPI_MIN : k == 2 ? MPI_MAX : k == 3 ? MPI_PROD : MPI_SUM;
}

/* ---- exchanges ------------------------------------------------------------------------------------------------------ */

typedef struct request {
    MPI_Request mpi;
    mx_exchange_kind kind;
    mx_sum *sum;          /* instead of `mpi`; owned; NULL: none */
    int *layout;          /* counts, then displacements, of parts of different sizes; owned; NULL: none */
    struct request *next; /* among the spare ones */
} request;

static request *spare_requests; /* that ended: exchanges need no allocation for theirs */

static request *take_request(void)
{
    request *r = spare_requests;
    if (!r)
        return calloc(1, sizeof *r);
    spare_requests = r->next;
    r->sum = NULL, r->layout = NULL;
    return r;
}

static void give_back(request *r)
{
    free(r->layout);
    r->next = spare_requests;
    spare_requests = r;
}

static const char *const names[] = {"all-reduce", "broadcast", "all-gather", "reduce-scatter", "all-to-all", "barrier"};

/* Counts, then displacements, as MPI wants them: (2 size) ints at `to`. */
static void lay_out(int *to, const int64_t *counts)
{
    for (int i = 0, at = 0; i < table.size; at += to[i++])
        to[i] = (int)counts[i], to[table.size + i] = at;
}

static int gather(const mx_exchange *x, request *r, MPI_Comm comm)
{
    const MPI_Datatype type = type_of(x->dtype);
    const int n = (int)x->count;
    if (!x->counts)
        return MPI_Iallgather(x->from, n, type, x->to, n, type, comm, &r->mpi);
    if (!(r->layout = malloc(2 * (size_t)table.size * sizeof *r->layout)))
        return MPI_ERR_NO_MEM;
    lay_out(r->layout, x->counts);
    return MPI_Iallgatherv(x->from, n, type, x->to, r->layout, r->layout + table.size, type, comm, &r->mpi);
}

static int all_to_all(const mx_exchange *x, request *r, MPI_Comm comm)
{
    const MPI_Datatype type = type_of(x->dtype);
    const int n = (int)x->count;
    if (!x->counts)
        return MPI_Ialltoall(x->from, n, type, x->to, n, type, comm, &r->mpi);
    if (!(r->layout = malloc(4 * (size_t)table.size * sizeof *r->layout)))
        return MPI_ERR_NO_MEM;
    int *out = r->layout, *in = r->layout + 2 * table.size;
    lay_out(out, x->counts);
    lay_out(in, x->received);
    return MPI_Ialltoallv(x->from, out, out + table.size, type, x->to, in, in + table.size, type, comm, &r->mpi);
}

static int begin(const mx_exchange *x, request *r, MPI_Comm comm)
{
    const MPI_Datatype type = type_of(x->dtype);
    const int n = (int)x->count;
    switch (x->kind) {
    case MX_EXCHANGE_ALL_REDUCE:
        return MPI_Iallreduce(x->from == x->to ? MPI_IN_PLACE : x->from, x->to, n, type, op_of(x->dtype, x->how), comm,
                              &r->mpi);
    case MX_EXCHANGE_BROADCAST: return MPI_Ibcast(x->to, n, type, x->root, comm, &r->mpi);
    case MX_EXCHANGE_ALL_GATHER: return gather(x, r, comm);
    case MX_EXCHANGE_REDUCE_SCATTER:
        return MPI_Ireduce_scatter_block(x->from, x->to, n, type, op_of(x->dtype, x->how), comm, &r->mpi);
    case MX_EXCHANGE_ALL_TO_ALL: return all_to_all(x, r, comm);
    default: return MPI_Ibarrier(comm, &r->mpi);
    }
}

/* MPI's nonblocking algorithms do these slowly. */
static bool is_sum(const mx_exchange *x)
{
    return x->kind == MX_EXCHANGE_ALL_REDUCE && x->from == x->to && (x->how == MX_SUM || x->how == MX_MEAN) &&
           table.size > 1 && x->count && mx_sum_suits(x->count, x->dtype);
}

static int begin_sum(const mx_exchange *x, request *r)
{
    static int tags[MX_COMM_CHANNELS]; /* all processes start the exchanges of a channel in the same order */
    int status;
    tags[x->channel] = (tags[x->channel] + 1) % 32767; /* the least that MPI guarantees */
    r->sum = mx_sum_start(x->to, x->count, x->dtype, channels[x->channel], tags[x->channel], &status);
    return status;
}

/* MPI's counts are ints. */
static bool too_large(const mx_exchange *x)
{
    int64_t all = x->counts ? 0 : x->count, in = 0;
    for (int i = 0; x->counts && i < table.size; i++)
        all += x->counts[i], in += x->received ? x->received[i] : 0;
    return all > INT_MAX || in > INT_MAX;
}

static mx_code start(const mx_exchange *x, void **out)
{
    *out = NULL;
    if (too_large(x))
        return mx_fail(MX_ERR_UNSUPPORTED, "%s between processes: more than %d elements", names[x->kind], INT_MAX);
    request *r = take_request();
    if (!r)
        return mx_fail(MX_ERR_MEMORY, "%s between processes: out of memory", names[x->kind]);
    r->kind = x->kind;
    const mx_code code = check(is_sum(x) ? begin_sum(x, r) : begin(x, r, channels[x->channel]), names[x->kind]);
    if (code)
        give_back(r);
    else
        *out = r;
    return code;
}

static int test(void **out)
{
    request *r = *out;
    int done = 0, status;
    if (r->sum)
        done = mx_sum_test(r->sum, &status);
    else
        status = MPI_Test(&r->mpi, &done, MPI_STATUS_IGNORE);
    const mx_code code = check(status, names[r->kind]);
    if (!code && !done)
        return 0;
    give_back(r);
    *out = NULL;
    return code ? -1 : 1;
}

/* ---- notices -------------------------------------------------------------------------------------------------------- */

static void tell(int to, const mx_notice *notice)
{
    for (int i = 0; i < NOTICES; i++) {
        int done = 1;
        if (sent[i].request != MPI_REQUEST_NULL)
            MPI_Test(&sent[i].request, &done, MPI_STATUS_IGNORE);
        if (!done)
            continue;
        sent[i].notice = *notice;
        MPI_Isend(&sent[i].notice, (int)sizeof *notice, MPI_BYTE, to, 0, notices, &sent[i].request);
        return;
    }
}

static bool hear(mx_notice *notice)
{
    int there = 0, over = 0;
    MPI_Status status;
    if (MPI_Finalized(&over), over)
        return false;
    if (MPI_Iprobe(MPI_ANY_SOURCE, 0, notices, &there, &status) != MPI_SUCCESS || !there)
        return false;
    return MPI_Recv(notice, (int)sizeof *notice, MPI_BYTE, status.MPI_SOURCE, 0, notices, MPI_STATUS_IGNORE) ==
           MPI_SUCCESS;
}

/* ---- beginning and end ---------------------------------------------------------------------------------------------- */

static void quit(int status)
{
    int over = 0;
    MPI_Finalized(&over);
    if (!over)
        MPI_Abort(MPI_COMM_WORLD, status);
}

static void end(void)
{
    int over = 0;
    MPI_Finalized(&over);
    if (!ours || over)
        return;
    for (int i = 0; i < 2; i++) {
        MPI_Type_free(&half_type[i]);
        for (int k = 0; k < 4; k++)
            MPI_Op_free(&half_op[i][k]);
    }
    MPI_Finalize();
}

static mx_code initialize(int *level)
{
    int before = 0;
    MPI_Initialized(&before);
    ours = !before;
    if (before) {
        MPI_Query_thread(level);
        return MX_OK;
    }
    return check(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, level), "the start");
}

static void find_neighbours(void)
{
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, table.rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &table.local_rank);
    MPI_Comm_size(node, &table.local_size);
    MPI_Comm_free(&node);
}

static mx_code open_channels(void)
{
    for (int i = 0; i < NOTICES; i++)
        sent[i].request = MPI_REQUEST_NULL;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* duplicates inherit it */
    mx_code code = check(MPI_Comm_dup(MPI_COMM_WORLD, &notices), "the start");
    for (int i = 0; !code && i < MX_COMM_CHANNELS; i++)
        code = check(MPI_Comm_dup(MPI_COMM_WORLD, &channels[i]), "the start");
    return code;
}

/* Processes of different versions would not understand each other; all of them report it. */
static mx_code check_versions(void)
{
    enum { ROOM = 32 };
    char mine[ROOM] = "", *all = malloc((size_t)table.size * ROOM);
    snprintf(mine, sizeof mine, "%s", library.version);
    if (!all)
        return mx_fail(MX_ERR_MEMORY, "several processes: out of memory");
    mx_code code = check(MPI_Allgather(mine, ROOM, MPI_CHAR, all, ROOM, MPI_CHAR, notices), "the start");
    for (int r = 1; !code && r < table.size; r++)
        if (memcmp(all, all + r * ROOM, ROOM))
            code = mx_fail(
                MX_ERR_COMM,
                "rank 0 has version %s of the library, rank %d has version %s: install the same on all machines", all,
                r, all + r * ROOM);
    free(all);
    return code;
}

__attribute__((visibility("default"))) const mx_transport *mx_mpi_open(const mx_mpi_library *given);

const mx_transport *mx_mpi_open(const mx_mpi_library *given)
{
    int level = MPI_THREAD_SINGLE;
    library = *given;
    if (library.border != MX_MPI_BORDER) {
        mx_fail(MX_ERR_COMM, "libgluon_mpi.so belongs to another version of the library");
        return NULL;
    }
    if (initialize(&level))
        return NULL;
    table = (mx_transport){.name = "mpi", .start = start, .test = test, .tell = tell, .hear = hear, .abort = quit,
                           .end = end, .threads = ours || level == MPI_THREAD_MULTIPLE, .anyone = level >= MPI_THREAD_SERIALIZED};
    MPI_Comm_rank(MPI_COMM_WORLD, &table.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &table.size);
    if (open_channels() || check_versions())
        return NULL;
    find_neighbours();
    make_half_ops();
    return &table;
}
