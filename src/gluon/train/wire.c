/* The memory of a bucket and the way that it takes to the other processes:
 *
 *     gradients in host memory      gradient --copy--> host --MPI--> host --copy--> gradient
 *     on GPUs with NCCL             gradient --copy--> array --NCCL, in the lane--> array --copy--> gradient
 *     on GPUs without               gradient --copy--> array --lane--> host (pinned) --MPI--> host --lane--> array --copy-->
 *
 * On GPUs all copies are queued; only the last way waits, for MPI.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/train/wire.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "exec/profile.h"
#include "ndarray/convert.h"

/* ---- memory ---------------------------------------------------------------------------------------------------------- */

static mx_array *elements(const mx_wire *self, mx_context context)
{
    const mx_shape_t shape = {.ndim = 1, .dim = {self->count}};
    return mx_array_new(&shape, self->dtype, context);
}

mx_code mx_wire_open(mx_wire *self, mx_comm *comm, mx_context context, mx_dtype dtype, int64_t count)
{
    const bool clean = !mx_has_error();
    self->dtype = dtype, self->count = count;
    self->route = mx_comm_route(comm, context);
    if (clean && mx_has_error())
        return mx_error_code();
    if (self->route && !(self->array = elements(self, context)))
        return mx_error_code();
    if (!self->route || !self->route->grouped || !self->route->lanes->takes(dtype))
        self->host = elements(self, self->route ? mx_cpu_pinned(0) : mx_cpu(0));
    return self->host || mx_wire_grouped(self) ? MX_OK : mx_error_code();
}

void mx_wire_close(mx_wire *self)
{
    if (self->host && self->array)
        mx_array_wait(self->array); /* the last copy from the host may not have run yet */
    mx_release(self->host);
    mx_release(self->array);
    self->host = self->array = NULL;
}

/* ---- packing --------------------------------------------------------------------------------------------------------- */

static char *place_of(const mx_wire *self, int64_t offset)
{
    return (char *)mx_data(self->host) + offset * mx_dtype_size(self->dtype);
}

/* A part of the device's memory, in the shape of `like`; owned by the scope. */
static mx_array *part_of(const mx_wire *self, int64_t offset, const mx_array *like)
{
    const mx_shape_t shape = mx_array_shape(like);
    return mx_scope_add(mx_array_view(self->array, offset * mx_dtype_size(self->dtype), &shape, self->dtype));
}

/* Copies elements between an array and host memory of another type. */
static mx_code convert_out(const mx_array *from, void *to, mx_dtype wire)
{
    const size_t bytes = mx_bytes(from);
    void *room = mx_alloc(bytes ? bytes : 1);
    const mx_code code = room ? mx_array_read(from, room, bytes) : mx_error_code();
    if (!code)
        mx_convert(to, wire, room, (mx_dtype)from->dtype, from->size);
    mx_free(room, bytes ? bytes : 1);
    return code;
}

static mx_code convert_in(mx_array *to, const void *from, mx_dtype wire)
{
    const size_t bytes = mx_bytes(to);
    void *room = mx_alloc(bytes ? bytes : 1);
    if (!room)
        return mx_error_code();
    mx_convert(room, (mx_dtype)to->dtype, from, wire, to->size);
    const mx_code code = mx_array_write(to, room, bytes);
    mx_free(room, bytes ? bytes : 1);
    return code;
}

/* Between arrays of the device, of any types. */
static mx_code copy(mx_array *to, mx_array *from)
{
    if (!to)
        return mx_error_code();
    return to->dtype == from->dtype ? mx_array_copy_data(to, from) : mx_array_set(to, from);
}

mx_code mx_wire_pack(mx_wire *self, int64_t offset, mx_array *gradient)
{
    MX_SCOPE;
    if (self->array)
        return copy(part_of(self, offset, gradient), gradient);
    return self->dtype == (mx_dtype)gradient->dtype
               ? mx_array_read(gradient, place_of(self, offset), mx_bytes(gradient))
               : convert_out(gradient, place_of(self, offset), self->dtype);
}

mx_code mx_wire_pack_zeros(mx_wire *self, int64_t offset, int64_t count)
{
    MX_SCOPE;
    const mx_shape_t shape = {.ndim = 1, .dim = {count}};
    if (!self->array)
        return memset(place_of(self, offset), 0, (size_t)(count * mx_dtype_size(self->dtype))), MX_OK;
    mx_array *part = mx_scope_add(mx_array_view(self->array, offset * mx_dtype_size(self->dtype), &shape, self->dtype));
    return part ? mx_array_fill(part, 0) : mx_error_code();
}

mx_code mx_wire_unpack(mx_wire *self, int64_t offset, mx_array *gradient)
{
    MX_SCOPE;
    if (self->array) {
        mx_array *part = part_of(self, offset, gradient);
        return part ? copy(gradient, part) : mx_error_code();
    }
    return self->dtype == (mx_dtype)gradient->dtype
               ? mx_array_write(gradient, place_of(self, offset), mx_bytes(gradient))
               : convert_in(gradient, place_of(self, offset), self->dtype);
}

/* ---- the exchange ---------------------------------------------------------------------------------------------------- */

static mx_exchange exchange_of(const mx_wire *self, mx_comm *comm)
{
    return (mx_exchange){.kind = MX_EXCHANGE_ALL_REDUCE, .channel = mx_comm_channel(comm), .count = self->count,
                         .dtype = self->dtype, .how = MX_SUM};
}

mx_code mx_wire_announce(mx_wire *self, mx_comm *comm)
{
    self->work.begun = mx_profiler_now();
    return mx_comm_announce(comm, exchange_of(self, comm));
}

mx_code mx_wire_launch(mx_wire *self)
{
    const mx_route *r = self->route;
    void *x = mx_data(self->array);
    if (r->lanes->begin(r->lane))
        return mx_error_code();
    return self->count ? r->lanes->all_reduce(r->lane, x, x, self->count, self->dtype, MX_SUM) : MX_OK;
}

static bool is_on_host(void *user)
{
    const mx_wire *self = user;
    return self->route->lanes->reached(self->route->lane, self->ticket);
}

static mx_code copy_to_host(mx_wire *self)
{
    const mx_route *r = self->route;
    return r->lanes->begin(r->lane) ||
                   r->lanes->to_host(r->lane, mx_data(self->host), mx_data(self->array), mx_bytes(self->array)) ||
                   r->lanes->mark(r->lane, &self->ticket)
               ? mx_error_code()
               : MX_OK;
}

mx_code mx_wire_start(mx_wire *self, mx_comm *comm)
{
    if (mx_wire_grouped(self))
        return mx_wire_announce(self, comm) ? mx_error_code() : mx_wire_launch(self);
    if (self->array && copy_to_host(self))
        return mx_error_code();
    self->work.what = exchange_of(self, comm);
    self->work.what.from = self->work.what.to = mx_data(self->host);
    self->work.ready = self->array ? is_on_host : NULL;
    self->work.ready_user = self;
    return mx_engine_begin(&self->work);
}

mx_code mx_wire_wait(mx_wire *self)
{
    const mx_route *r = self->route;
    if (self->host && mx_engine_wait(&self->work))
        return mx_error_code();
    if (!self->array)
        return MX_OK;
    if (self->host && r->lanes->from_host(r->lane, mx_data(self->array), mx_data(self->host), mx_bytes(self->array)))
        return mx_error_code();
    if (mx_wire_grouped(self))
        self->work.ended = mx_profiler_now();
    return r->lanes->end(r->lane);
}
