/* Communicators: exchanges of arrays (see gluon/comm.h).
 *
 *     array on a device --copy--> stage in host memory --transport--> stage --copy--> array
 *     array on a device --NCCL, if it can--> array                                                        (lane.c)
 *
 * Arrays in host memory are sent and received in place.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/given.h"
#include "comm/lane.h"
#include "ndarray/convert.h"

/* ---- communicators ------------------------------------------------------------------------------------------------ */

static void destroy(mx_object *object) { mx_free(object, sizeof(mx_comm)); }
const mx_kind mx_comm_kind = {"communicator", destroy};

static mx_comm *make(const mx_transport *transport, int channel)
{
    mx_comm *self = transport ? mx_alloc_zero(sizeof *self) : NULL;
    if (!self)
        return NULL;
    mx_object_init(&self->object, &mx_comm_kind);
    self->transport = transport;
    self->channel = channel;
    return self;
}

mx_comm *mx_comm_new(bool need_part)
{
    const mx_transport *transport = mx_engine_world(need_part);
    return transport ? make(transport, -1) : NULL;
}

int mx_comm_channel(mx_comm *self)
{
    if (self->channel < 0)
        self->channel = mx_engine_channel();
    return self->channel;
}

mx_comm *mx_comm_world(void)
{
    static _Atomic(mx_comm *) world; /* never freed */
    const mx_transport *transport = mx_engine_world(false);
    mx_comm *found = transport ? atomic_load(&world) : NULL;
    if (!transport || found)
        return found;
    mx_comm *made = make(transport, 0);
    if (!made || atomic_compare_exchange_strong(&world, &found, made))
        return made;
    mx_release(made); /* another thread was faster */
    return found;
}

static bool ok(const mx_comm *self, const char *function) { return mx_is_kind(self, &mx_comm_kind, function, "comm"); }

const char *mx_comm_name(const mx_comm *self) { return ok(self, "mx_comm_name") ? self->transport->name : NULL; }
int mx_comm_rank(const mx_comm *self) { return ok(self, "mx_comm_rank") ? self->transport->rank : -1; }
int mx_comm_size(const mx_comm *self) { return ok(self, "mx_comm_size") ? self->transport->size : -1; }
int mx_comm_local_rank(const mx_comm *self)
{
    return ok(self, "mx_comm_local_rank") ? self->transport->local_rank : -1;
}
int mx_comm_local_size(const mx_comm *self)
{
    return ok(self, "mx_comm_local_size") ? self->transport->local_size : -1;
}

int mx_rank(void)
{
    const mx_comm *world = mx_comm_world();
    return world ? world->transport->rank : -1;
}
int mx_world_size(void)
{
    const mx_comm *world = mx_comm_world();
    return world ? world->transport->size : -1;
}

void mx_comm_fail(const char *message) { mx_engine_fail(message); }
mx_code mx_comm_shutdown(void) { return mx_engine_end(); }

/* ---- host memory --------------------------------------------------------------------------------------------------- */

static mx_code run(mx_comm *self, mx_exchange what)
{
    mx_work work; /* a large struct: the engine sets the rest */
    work.what = what;
    work.what.channel = mx_comm_channel(self);
    work.ready = NULL;
    return mx_engine_run(&work);
}

mx_code mx_comm_reduce_memory(mx_comm *self, void *x, int64_t count, mx_dtype dtype, mx_reduction how)
{
    return run(self, (mx_exchange){.kind = MX_EXCHANGE_ALL_REDUCE, .from = x, .to = x, .count = count, .dtype = dtype,
                                   .how = how});
}

mx_code mx_comm_broadcast_memory(mx_comm *self, void *x, int64_t count, mx_dtype dtype, int root)
{
    return run(self,
               (mx_exchange){.kind = MX_EXCHANGE_BROADCAST, .to = x, .count = count, .dtype = dtype, .root = root});
}

mx_code mx_comm_gather_memory(mx_comm *self, const void *from, void *to, int64_t count, const int64_t *counts,
                              mx_dtype dtype)
{
    return run(self, (mx_exchange){.kind = MX_EXCHANGE_ALL_GATHER, .from = from, .to = to, .count = count,
                                   .counts = counts, .dtype = dtype});
}

mx_code mx_comm_barrier(mx_comm *self)
{
    return ok(self, "mx_comm_barrier") ? run(self, (mx_exchange){.kind = MX_EXCHANGE_BARRIER, .dtype = MX_UINT8})
                                       : mx_error_code();
}

static mx_code check_root(const mx_comm *self, int root, const char *who)
{
    if (root >= 0 && root < self->transport->size)
        return MX_OK;
    return mx_fail(MX_ERR_ARGUMENT, "%s: root is %d, wanted a rank from 0 to %d", who, root, self->transport->size - 1);
}

mx_code mx_comm_broadcast_bytes(mx_comm *self, const void **bytes, size_t *count, int root)
{
    if (!ok(self, "mx_comm_broadcast_bytes") || check_root(self, root, "broadcast"))
        return mx_error_code();
    if (!mx_given(bytes, "mx_comm_broadcast_bytes", "bytes") || !mx_given(count, "mx_comm_broadcast_bytes", "count"))
        return mx_error_code();
    int64_t n = (int64_t)*count;
    if (mx_comm_alone(self))
        return MX_OK;
    if (mx_comm_broadcast_memory(self, &n, 1, MX_INT64, root))
        return mx_error_code();
    mx_array *room = mx_empty(MX_DIMS(n), MX_UINT8, mx_cpu(0));
    if (!room)
        return mx_error_code();
    if (self->transport->rank == root && n)
        memcpy(mx_data(room), *bytes, (size_t)n);
    if (mx_comm_broadcast_memory(self, mx_data(room), n, MX_UINT8, root))
        return mx_error_code();
    *bytes = mx_data(room), *count = (size_t)n;
    return MX_OK;
}

/* The first place where two texts differ is what a reader wants to see. */
static mx_code report_difference(const char *what, const char *mine, const char *theirs, int rank, int root)
{
    size_t at = 0, line = 0;
    for (; mine[at] && mine[at] == theirs[at]; at++)
        if (mine[at] == '\n')
            line = at + 1;
    const char *a = theirs + line, *b = mine + line;
    return mx_fail(MX_ERR_COMM, "%s differ between processes: rank %d has %.*s, rank %d has %.*s", what, root,
                   (int)strcspn(a, "\n"), *a ? a : "no more", rank, (int)strcspn(b, "\n"), *b ? b : "no more");
}

mx_code mx_comm_same_text(mx_comm *self, const char *text, const char *what)
{
    if (mx_comm_alone(self))
        return MX_OK;
    MX_SCOPE;
    const void *first = text;
    size_t count = strlen(text) + 1;
    if (mx_comm_broadcast_bytes(self, &first, &count, 0))
        return mx_error_code();
    int32_t differs = strcmp(text, first) ? self->transport->rank : 0, worst = differs;
    if (mx_comm_reduce_memory(self, &worst, 1, MX_INT32, MX_MAX))
        return mx_error_code();
    if (differs)
        return report_difference(what, text, first, self->transport->rank, 0);
    return worst ? mx_fail(MX_ERR_COMM, "%s differ between processes: those of rank %d are not those of rank 0", what,
                           (int)worst)
                 : MX_OK;
}

/* ---- works ---------------------------------------------------------------------------------------------------------- */

static void destroy_work(mx_object *object)
{
    mx_comm_work *self = (mx_comm_work *)object;
    if (!self->waited && self->x) { /* the memory is still in use */
        const bool clean = !mx_has_error();
        if (self->route)
            self->route->lanes->end(self->route->lane);
        else
            mx_engine_wait(&self->work);
        if (clean)
            mx_error_clear();
    }
    mx_free(self->stage, self->bytes);
    mx_release(self->x);
    mx_free(self, sizeof *self);
}
const mx_kind mx_comm_work_kind = {"exchange", destroy_work};

static bool check_array(const mx_comm *self, const mx_array *x, const char *who)
{
    if (!ok(self, who) || !mx_array_ok(x, who, "x"))
        return false;
    if (!x->storage)
        return mx_fail_null(MX_ERR_STATE, "%s: the array has no elements: it was made while tracing", who) != NULL;
    return true;
}

/* Host memory with the elements of x. */
static void *staged(mx_comm_work *self, mx_array *x)
{
    static char nothing[1];
    if (!x->size)
        return nothing;
    if (mx_context_is_host(x->context))
        return mx_array_wait(x), mx_data(x);
    self->bytes = mx_bytes(x);
    self->stage = mx_alloc(self->bytes ? self->bytes : 1);
    return self->stage && !mx_array_read(x, self->stage, self->bytes) ? self->stage : NULL;
}

/* Devices exchange x in their lanes. */
static mx_code begin_beside(mx_comm_work *self, mx_comm *comm, mx_array *x, mx_exchange what)
{
    const mx_lanes *lanes = self->route->lanes;
    mx_lane *lane = self->route->lane;
    void *memory = mx_data(x);
    if (mx_comm_announce(comm, what) || lanes->begin(lane))
        return mx_error_code();
    if (what.kind == MX_EXCHANGE_BROADCAST ? lanes->broadcast(lane, memory, what.count, what.dtype, what.root)
                                           : lanes->all_reduce(lane, memory, memory, what.count, what.dtype, what.how))
        return mx_error_code();
    return lanes->mark(lane, &self->ticket);
}

static mx_code begin_staged(mx_comm_work *self, mx_array *x, mx_exchange what)
{
    void *memory = staged(self, x);
    what.from = what.kind == MX_EXCHANGE_BROADCAST ? NULL : memory;
    what.to = memory;
    self->work.what = what;
    return memory ? mx_engine_begin(&self->work) : mx_error_code();
}

static mx_comm_work *begin(mx_comm *comm, mx_array *x, mx_exchange what)
{
    const bool clean = !mx_has_error();
    mx_comm_work *self = mx_alloc_zero(sizeof *self);
    if (!self)
        return NULL;
    mx_object_init(&self->object, &mx_comm_work_kind);
    self->waited = true;
    self->how = what.how;
    what.channel = mx_comm_channel(comm);
    what.count = x->size;
    what.dtype = (mx_dtype)x->dtype;
    self->route = x->size ? mx_comm_group_route(comm, x->context, what.dtype) : NULL;
    if ((clean && mx_has_error()) || (self->route ? begin_beside(self, comm, x, what) : begin_staged(self, x, what))) {
        mx_release(self);
        return NULL;
    }
    self->x = mx_retain(x);
    self->waited = false;
    return mx_scope_add(self);
}

mx_comm_work *mx_comm_all_reduce_start(mx_comm *comm, mx_array *x, mx_reduction how)
{
    if (!check_array(comm, x, "mx_comm_all_reduce"))
        return NULL;
    if (how < MX_SUM || how > MX_PRODUCT)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_comm_all_reduce: unknown reduction %d", (int)how);
    return begin(comm, x, (mx_exchange){.kind = MX_EXCHANGE_ALL_REDUCE, .how = how});
}

mx_comm_work *mx_comm_broadcast_start(mx_comm *comm, mx_array *x, int root)
{
    if (!check_array(comm, x, "mx_comm_broadcast") || check_root(comm, root, "mx_comm_broadcast"))
        return NULL;
    return begin(comm, x, (mx_exchange){.kind = MX_EXCHANGE_BROADCAST, .root = root});
}

bool mx_comm_done(const mx_comm_work *work)
{
    return mx_is_kind(work, &mx_comm_work_kind, "mx_comm_done", "work") &&
           (work->waited ||
            (work->route ? work->route->lanes->reached(work->route->lane, work->ticket) : mx_engine_done(&work->work)));
}

/* x /= n, in host memory. */
static void divide(void *x, int64_t count, mx_dtype dtype, int n)
{
    float row[256];
    double wide[256];
    const bool is_wide = dtype != MX_FLOAT32 && dtype != MX_FLOAT16 && dtype != MX_BFLOAT16;
    char *at = x;
    for (int64_t left = count, m; left; left -= m, at += m * mx_dtype_size(dtype)) {
        m = left < 256 ? left : 256;
        if (is_wide) {
            mx_convert(wide, MX_FLOAT64, at, dtype, m);
            for (int64_t i = 0; i < m; i++)
                wide[i] /= n;
            mx_convert(at, dtype, wide, MX_FLOAT64, m);
        } else {
            mx_convert(row, MX_FLOAT32, at, dtype, m);
            for (int64_t i = 0; i < m; i++)
                row[i] /= (float)n;
            mx_convert(at, dtype, row, MX_FLOAT32, m);
        }
    }
}

static mx_code end(mx_comm_work *self)
{
    mx_array_changed(self->x);
    if (self->route)
        return self->route->lanes->end(self->route->lane);
    if (mx_engine_wait(&self->work))
        return mx_error_code();
    if (self->how == MX_MEAN)
        divide(self->work.what.to, self->x->size, (mx_dtype)self->x->dtype, mx_world_size());
    const mx_code code = self->stage ? mx_array_write(self->x, self->stage, self->bytes) : MX_OK;
    mx_array_changed(self->x);
    return code;
}

mx_code mx_comm_wait(mx_comm_work *self)
{
    if (!mx_is_kind(self, &mx_comm_work_kind, "mx_comm_wait", "work"))
        return mx_error_code();
    if (self->waited)
        return self->work.code;
    self->waited = true;
    return end(self);
}

/* ---- arrays --------------------------------------------------------------------------------------------------------- */

/* In place, without an object for the exchange. */
static mx_code reduce_in_place(mx_comm *comm, mx_array *x, mx_reduction how)
{
    mx_array_wait(x);
    if (mx_comm_reduce_memory(comm, mx_data(x), x->size, (mx_dtype)x->dtype, how))
        return mx_error_code();
    if (how == MX_MEAN)
        divide(mx_data(x), x->size, (mx_dtype)x->dtype, comm->transport->size);
    mx_array_changed(x);
    return MX_OK;
}

static mx_code reduce_staged(mx_comm *comm, mx_array *x, mx_reduction how)
{
    MX_SCOPE;
    mx_comm_work *work = mx_comm_all_reduce_start(comm, x, how);
    return work ? mx_comm_wait(work) : mx_error_code();
}

mx_code mx_comm_all_reduce(mx_comm *comm, mx_array *x, mx_reduction how)
{
    if (!check_array(comm, x, "mx_comm_all_reduce"))
        return mx_error_code();
    const bool simple = mx_context_is_host(x->context) && x->size && how >= MX_SUM && how <= MX_PRODUCT;
    return simple ? reduce_in_place(comm, x, how) : reduce_staged(comm, x, how);
}

mx_code mx_comm_broadcast(mx_comm *comm, mx_array *x, int root)
{
    MX_SCOPE;
    mx_comm_work *work = mx_comm_broadcast_start(comm, x, root);
    return work ? mx_comm_wait(work) : mx_error_code();
}

static bool fits_parts(const mx_comm *comm, const mx_array *x, const char *who)
{
    if (!check_array(comm, x, who))
        return false;
    if (x->ndim >= 1 && x->shape[0] % comm->transport->size == 0)
        return true;
    char text[MX_SHAPE_TEXT];
    const mx_shape_t shape = mx_array_shape(x);
    mx_fail(MX_ERR_SHAPE, "%s: the first axis of %s cannot be divided among %d processes", who,
            mx_shape_text(&shape, text), comm->transport->size);
    return false;
}

static bool all_equal(const int64_t *counts, int n)
{
    for (int i = 1; counts && i < n; i++)
        if (counts[i] != counts[0])
            return false;
    return true;
}

/* The way of an exchange that devices can make by themselves; NULL without an error: they cannot. */
static const mx_route *route_into_new(mx_comm *comm, const mx_array *x, const mx_exchange *what)
{
    const bool possible = what->kind == MX_EXCHANGE_REDUCE_SCATTER ||
                          (what->kind == MX_EXCHANGE_ALL_GATHER && all_equal(what->counts, comm->transport->size));
    return possible && x->size ? mx_comm_group_route(comm, x->context, (mx_dtype)x->dtype) : NULL;
}

static mx_array *into_new_beside(mx_comm *comm, const mx_route *r, mx_array *x, mx_array *to, mx_exchange what)
{
    const mx_lanes *lanes = r->lanes;
    what.dtype = (mx_dtype)x->dtype;
    if (!to || mx_comm_announce(comm, what) || lanes->begin(r->lane))
        return NULL;
    const mx_code code =
        what.kind == MX_EXCHANGE_ALL_GATHER
            ? lanes->all_gather(r->lane, mx_data(x), mx_data(to), what.count, what.dtype)
            : lanes->reduce_scatter(r->lane, mx_data(x), mx_data(to), what.count, what.dtype, what.how);
    return code || lanes->end(r->lane) ? NULL : to;
}

/* Runs an exchange between x and a new array of this many rows: by devices, or between host copies. */
static mx_array *into_new(mx_comm *comm, mx_array *x, int64_t rows, mx_exchange what)
{
    const bool clean = !mx_has_error();
    mx_shape_t shape = mx_array_shape(x);
    shape.dim[0] = rows;
    const mx_route *route = route_into_new(comm, x, &what);
    if (clean && mx_has_error())
        return NULL;
    if (route)
        return into_new_beside(comm, route, x, mx_scope_add(mx_array_new(&shape, (mx_dtype)x->dtype, x->context)),
                               what);
    mx_array *from = mx_array_to(x, mx_context_is_host(x->context) ? x->context : mx_cpu(0));
    mx_array *to = from ? mx_scope_add(mx_array_new(&shape, (mx_dtype)x->dtype, from->context)) : NULL;
    if (!to)
        return NULL;
    mx_array_wait(from);
    what.from = mx_data(from), what.to = mx_data(to), what.dtype = (mx_dtype)x->dtype;
    if (run(comm, what))
        return NULL;
    if (what.how == MX_MEAN)
        divide(what.to, to->size, what.dtype, comm->transport->size);
    return mx_array_to(to, x->context);
}

mx_array *mx_comm_reduce_scatter(mx_comm *comm, mx_array *x, mx_reduction how)
{
    if (!fits_parts(comm, x, "mx_comm_reduce_scatter"))
        return NULL;
    const int n = comm->transport->size;
    return into_new(comm, x, x->shape[0] / n,
                    (mx_exchange){.kind = MX_EXCHANGE_REDUCE_SCATTER, .how = how, .count = x->size / n});
}

mx_array *mx_comm_all_to_all(mx_comm *comm, mx_array *x)
{
    if (!fits_parts(comm, x, "mx_comm_all_to_all"))
        return NULL;
    return into_new(comm, x, x->shape[0],
                    (mx_exchange){.kind = MX_EXCHANGE_ALL_TO_ALL, .count = x->size / comm->transport->size});
}

static int64_t row_size(const mx_array *x)
{
    int64_t row = 1;
    for (int i = 1; i < x->ndim; i++)
        row *= x->shape[i];
    return row;
}

static mx_code check_rows(const mx_comm *comm, const mx_array *x, const int64_t *rows)
{
    int64_t total = 0;
    bool negative = false;
    for (int r = 0; rows && r < comm->transport->size; r++)
        total += rows[r], negative |= rows[r] < 0;
    if (rows && x->ndim && !negative && total == x->shape[0])
        return MX_OK;
    return mx_fail(MX_ERR_SHAPE,
                   "mx_comm_all_to_all_rows: parts for %d processes with %lld rows together, but the array has %lld%s",
                   comm->transport->size, (long long)total, (long long)(x->ndim ? x->shape[0] : 0),
                   negative ? "; a part is negative" : "");
}

/* What every process sends to this one: each needs the sizes of all. */
static mx_code learn_rows(mx_comm *comm, const int64_t *rows, int64_t row, int64_t *received)
{
    const int n = comm->transport->size;
    const size_t bytes = (size_t)(n + 1) * sizeof(int64_t);
    int64_t *all = mx_alloc((size_t)(n + 1) * bytes), *mine = all + n * (n + 1);
    if (!all)
        return mx_error_code();
    memcpy(mine, rows, (size_t)n * sizeof *rows);
    mine[n] = row;
    mx_code code = mx_comm_gather_memory(comm, mine, all, n + 1, NULL, MX_INT64);
    for (int r = 0; !code && r < n; r++) {
        received[r] = all[r * (n + 1) + comm->transport->rank];
        if (all[r * (n + 1) + n] != row)
            code =
                mx_fail(MX_ERR_SHAPE, "mx_comm_all_to_all_rows: rows have %lld elements on rank %d and %lld on rank %d",
                        (long long)row, comm->transport->rank, (long long)all[r * (n + 1) + n], r);
    }
    mx_free(all, (size_t)(n + 1) * bytes);
    return code;
}

mx_array *mx_comm_all_to_all_rows(mx_comm *comm, mx_array *x, const int64_t *rows, int64_t *received)
{
    if (!check_array(comm, x, "mx_comm_all_to_all_rows") || check_rows(comm, x, rows))
        return NULL;
    const int n = comm->transport->size;
    const int64_t row = row_size(x);
    const size_t bytes = 3 * (size_t)n * sizeof(int64_t);
    int64_t *room = mx_alloc(bytes), *in = room, *counts = room + n, *counts_in = room + 2 * n, total = 0;
    mx_array *made = NULL;
    if (room && !learn_rows(comm, rows, row, in)) {
        for (int r = 0; r < n; total += in[r++])
            counts[r] = rows[r] * row, counts_in[r] = in[r] * row;
        made = into_new(comm, x, total, (mx_exchange){.kind = MX_EXCHANGE_ALL_TO_ALL, .count = x->size, .counts = counts,
                                                      .received = counts_in});
        if (made && received)
            memcpy(received, in, (size_t)n * sizeof *in);
    }
    mx_free(room, bytes);
    return made;
}

/* The rows of every process; all must agree in the size of a row. */
static mx_code gather_rows(mx_comm *comm, const mx_array *x, int64_t row, int64_t *counts, int64_t *rows)
{
    const int n = comm->transport->size;
    int64_t mine[2] = {x->shape[0], row};
    int64_t *all = mx_alloc(2 * (size_t)n * sizeof *all);
    mx_code code = all ? mx_comm_gather_memory(comm, mine, all, 2, NULL, MX_INT64) : mx_error_code();
    *rows = 0;
    for (int r = 0; !code && r < n; r++) {
        if (all[2 * r + 1] != row)
            code = mx_fail(MX_ERR_SHAPE,
                           "mx_comm_all_gather: rows have %lld elements on rank %d and %lld on rank %d; only the first "
                           "axis may differ",
                           (long long)row, comm->transport->rank, (long long)all[2 * r + 1], r);
        counts[r] = all[2 * r] * row;
        *rows += all[2 * r];
    }
    mx_free(all, 2 * (size_t)n * sizeof *all);
    return code;
}

mx_array *mx_comm_all_gather(mx_comm *comm, mx_array *x)
{
    if (!check_array(comm, x, "mx_comm_all_gather"))
        return NULL;
    if (!x->ndim)
        x = mx_array_reshape(x, MX_DIMS(1));
    if (!x)
        return NULL;
    int64_t rows, *counts = mx_alloc((size_t)comm->transport->size * sizeof *counts);
    const int64_t row = row_size(x);
    mx_array *all = NULL;
    if (counts && !gather_rows(comm, x, row, counts, &rows))
        all =
            into_new(comm, x, rows, (mx_exchange){.kind = MX_EXCHANGE_ALL_GATHER, .count = x->size, .counts = counts});
    mx_free(counts, (size_t)comm->transport->size * sizeof *counts);
    return all;
}
