/* Parts of plans as captured launches: on a GPU, running a plan again is one launch of a CUDA graph.
 *
 *     first run    call by call: kernels that decline are skipped, algorithms are chosen, memory is allocated
 *     second run   captured, then launched
 *     later runs   what changed is captured again, call by call, and updated in the graph; then one launch
 *
 * What changes: calls that draw random numbers; updates whose rate changed; calls that read or write an array at another
 * address than before (inputs, results, parameters with new memory).  In a training loop that is little or nothing.
 * Stops between the calls (exchanges with other processes) are captured, too; if their memory changes, all is captured anew.
 * A plan that cannot be captured, because a kernel waits for the device, always runs call by call.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/flags.h"
#include "exec/call.h"
#include "exec/plan/plan.h"
#include "exec/profile.h"
#include "ndarray/device.h"

#define LEAST_CALLS 4   /* fewer launches are as fast one by one */
#define MOST_FAILURES 3 /* then it is not tried again */

typedef struct part {
    int32_t begin, end; /* calls */
    int32_t stop;       /* instead of calls; -1: none */
    bool random;
} part;

struct mx_captured {
    mx_captured *next; /* of the same frame: another range */
    int32_t begin, end, n_parts, failures;
    int32_t n_stops; /* between the calls */
    uint64_t stops;  /* a hash of where they are and of the memory that they touch, when captured */
    bool warm;       /* it has run */
    mx_capture *capture;
    part *parts;      /* (n_parts); room for one per call and stop */
    int32_t *watched; /* (n_watched) values from outside that the calls touch; room for all values */
    int64_t n_watched;
    void **seen;    /* (values) their addresses when captured; NULL for others */
    bool *moved;    /* (values) */
    char *attrs;    /* attributes of updates, as captured */
    size_t n_attrs; /* bytes of them */
    int64_t n_values;
    const mx_capturer *capturer;
};

_Atomic int64_t mx_stops_captured;

static void drop(mx_captured *r)
{
    if (r->capture)
        r->capturer->free(r->capture);
    r->capture = NULL;
    r->n_parts = 0;
}

void mx_captured_free(mx_captured *r)
{
    for (mx_captured *next; r; r = next) {
        next = r->next;
        drop(r);
        mx_free(r->parts, (size_t)(r->end - r->begin + r->n_stops) * sizeof *r->parts);
        mx_free(r->watched, (size_t)r->n_values * sizeof *r->watched);
        mx_free(r->seen, (size_t)r->n_values * sizeof *r->seen);
        mx_free(r->moved, (size_t)r->n_values);
        mx_free(r->attrs, r->n_attrs);
        mx_free(r, sizeof *r);
    }
}

/* ---- attributes that change: those of updates ---------------------------------------------------------------------- */

/* Only updates, which write to a parameter, get other attributes: room for those of a call, aligned for any field. */
static size_t changing_bytes(const mx_frame *frame, const mx_kernel_call *call)
{
    bool updates = call->op->mutates != 0;
    for (int k = 0; k < call->n_out && !updates; k++)
        updates = call->out[k] != MX_NONE &&
                  frame->plan->memory.place[call->out[k] - frame->headers].kind == MX_PLACE_EXTERNAL;
    return updates && call->op->schema ? (call->op->schema->size + 15) / 16 * 16 : 0;
}

static size_t attrs_of(const mx_frame *frame, int32_t begin, int32_t end)
{
    size_t bytes = 0;
    for (int32_t c = begin; c < end; c++)
        bytes += changing_bytes(frame, &frame->calls[c].call);
    return bytes;
}

/* Whether the attributes of the calls equal `saved`, which is updated. */
static bool same_attrs(const mx_frame *frame, int32_t begin, int32_t end, char **saved)
{
    bool same = true;
    for (int32_t c = begin; c < end; c++) {
        const mx_kernel_call *call = &frame->calls[c].call;
        const size_t bytes = changing_bytes(frame, call);
        if (bytes && !mx_schema_equal(call->op->schema, *saved, call->attrs)) {
            memcpy(*saved, call->attrs, call->op->schema->size);
            same = false;
        }
        *saved += bytes;
    }
    return same;
}

/* ---- arrays that move ------------------------------------------------------------------------------------------------ */

static bool look_at(mx_captured *r, const mx_frame *frame, int32_t value)
{
    const mx_array *x = &frame->headers[value];
    void *at = x->storage ? mx_data(x) : NULL;
    r->moved[value] = at != r->seen[value];
    r->seen[value] = at;
    return r->moved[value];
}

/* True: some address changed. */
static bool look_around(mx_captured *r, const mx_frame *frame)
{
    bool any = false;
    for (int64_t i = 0; i < r->n_watched; i++)
        any |= look_at(r, frame, r->watched[i]);
    return any;
}

static bool touches_moved(const mx_captured *r, const mx_frame *frame, const part *p)
{
    for (int32_t c = p->begin; c < p->end; c++) {
        const mx_kernel_call *call = &frame->calls[c].call;
        for (int k = 0; k < call->n_in + call->n_out; k++) {
            const mx_array *x = k < call->n_in ? call->in[k] : call->out[k - call->n_in];
            if (x != MX_NONE && r->moved[x - frame->headers])
                return true;
        }
    }
    return false;
}

/* ---- capturing --------------------------------------------------------------------------------------------------------- */

/* Memory that calls touch; a workspace requested in advance counts as a whole. */
static int64_t spans_of(const mx_frame *frame, const part *p, mx_touch *spans)
{
    int64_t n = 0;
    for (int32_t c = p->begin; c < p->end; c++) {
        const mx_kernel_call *call = &frame->calls[c].call;
        for (int k = 0; k < call->n_in + call->n_out; k++) {
            const bool is_in = k < call->n_in;
            const mx_array *x = is_in ? call->in[k] : call->out[k - call->n_in];
            if (x == MX_NONE || !x->size)
                continue;
            spans[n++] = (mx_touch){mx_data(x), mx_bytes(x), !is_in || (k < 32 && call->op->mutates >> k & 1)};
        }
        if (call->workspace)
            spans[n++] = (mx_touch){mx_data(frame->arena), mx_bytes(frame->arena), true};
    }
    return n;
}

static int64_t most_spans(const mx_frame *frame, const part *p)
{
    int64_t most = 0;
    if (p->stop >= 0)
        return frame->stops->touches(frame->stops->user, p->stop, NULL);
    for (int32_t c = p->begin; c < p->end; c++)
        most += frame->calls[c].call.n_in + frame->calls[c].call.n_out + 1;
    return most;
}

static mx_code mark(mx_captured *r, const mx_frame *frame, const part *p)
{
    const size_t bytes = (size_t)most_spans(frame, p) * sizeof(mx_touch);
    mx_touch *spans = mx_alloc(bytes);
    if (!spans)
        return MX_ERR_MEMORY;
    const int64_t n =
        p->stop < 0 ? spans_of(frame, p, spans) : frame->stops->touches(frame->stops->user, p->stop, spans);
    const mx_code code = r->capturer->mark(r->capture, n, spans);
    mx_free(spans, bytes);
    return code;
}

static mx_code capture_stop(mx_captured *r, mx_frame *frame, int32_t call, int32_t stop)
{
    part *p = &r->parts[r->n_parts++];
    *p = (part){call, call, stop, false};
    const mx_code code = frame->stops->run(frame->stops->user, stop);
    return code ? code : mark(r, frame, p);
}

static mx_code capture_calls(mx_captured *r, mx_frame *frame, int32_t c, int32_t end, int32_t *next)
{
    const mx_rng before = mx_rng_state();
    part *p = &r->parts[r->n_parts++];
    const mx_code code = mx_frame_run_alike(frame, c, end, next);
    *p = (part){c, *next, -1, before.counter != mx_rng_state().counter};
    return code ? code : mark(r, frame, p);
}

static mx_code capture_parts(mx_captured *r, mx_frame *frame)
{
    const mx_stops *stops = frame->stops;
    mx_code code = MX_OK;
    int32_t stop = 0;
    r->n_parts = 0;
    for (int32_t c = r->begin; !code && c < r->end;) {
        for (; !code && stop < r->n_stops && stops->before[stop] <= c; stop++)
            code = capture_stop(r, frame, c, stop);
        const int32_t until = stop < r->n_stops && stops->before[stop] < r->end ? stops->before[stop] : r->end;
        if (!code)
            code = capture_calls(r, frame, c, until, &c);
    }
    return code;
}

/* FNV-1a of the places and the memory of all stops; 0 if there are none. */
static uint64_t hash_stops(const mx_frame *frame)
{
    const mx_stops *stops = frame->stops;
    uint64_t hash = 0xcbf29ce484222325u;
    for (int32_t i = 0; stops && i < stops->n; i++) {
        mx_touch few[32];
        const int64_t n = stops->touches(stops->user, i, NULL);
        mx_touch *spans = n > 32 ? mx_alloc((size_t)n * sizeof *spans) : few;
        hash = (hash ^ (uint64_t)stops->before[i]) * 0x100000001b3u;
        for (int64_t k = 0, made = spans ? stops->touches(stops->user, i, spans) : 0; k < made; k++)
            hash = ((hash ^ (uintptr_t)spans[k].at) * 0x100000001b3u ^ spans[k].bytes) * 0x100000001b3u;
        if (spans != few)
            mx_free(spans, (size_t)n * sizeof *spans);
    }
    return stops ? hash : 0;
}

static mx_code capture(mx_captured *r, mx_frame *frame)
{
    char *saved = r->attrs;
    same_attrs(frame, r->begin, r->end, &saved);
    look_around(r, frame);
    r->stops = hash_stops(frame);
    r->capture = r->capturer->begin(frame->plan->program.context);
    if (!r->capture)
        return mx_error_code();
    const mx_code code = capture_parts(r, frame), ended = r->capturer->end(r->capture);
    return code ? code : ended;
}

static mx_code correct_part(mx_captured *r, mx_frame *frame, int32_t number)
{
    int32_t next;
    mx_code code = r->capturer->begin_part(r->capture, number);
    if (code)
        return code;
    code = mx_frame_run_alike(frame, r->parts[number].begin, r->parts[number].end, &next);
    const mx_code ended = r->capturer->end_part(r->capture);
    return code ? code : ended;
}

static bool is_written(const mx_frame *frame, const mx_place *place)
{
    return place->kind == MX_PLACE_RESULT ||
           (place->kind == MX_PLACE_EXTERNAL && frame->plan->program.externals.items[place->at].written);
}

/* An array that moved may overlap another one now, which the order of the parts does not account for. */
static bool collides(const mx_captured *r, const mx_frame *frame, int32_t moved)
{
    const mx_place *place = frame->plan->memory.place, *mine = &place[moved];
    const char *at = r->seen[moved], *end = at + mx_bytes(&frame->headers[moved]);
    for (int64_t i = 0; at && i < r->n_watched; i++) {
        const int32_t v = r->watched[i];
        const char *other = r->seen[v];
        const bool same = place[v].kind == mine->kind && place[v].at == mine->at; /* two views of one array */
        if (other && !same && (is_written(frame, mine) || is_written(frame, &place[v])) &&
            at < other + mx_bytes(&frame->headers[v]) && other < end)
            return true;
    }
    return false;
}

static bool any_collides(const mx_captured *r, const mx_frame *frame)
{
    for (int64_t i = 0; i < r->n_watched; i++)
        if (r->moved[r->watched[i]] && collides(r, frame, r->watched[i]))
            return true;
    return false;
}

static mx_code correct(mx_captured *r, mx_frame *frame)
{
    const bool any = look_around(r, frame);
    if (any && any_collides(r, frame))
        return mx_fail(MX_ERR_STATE, "capture: arrays share memory that did not before");
    if (r->stops != hash_stops(frame))
        return mx_fail(MX_ERR_STATE, "capture: an exchange uses other memory than before");
    char *saved = r->attrs;
    mx_code code = MX_OK;
    for (int32_t i = 0; !code && i < r->n_parts; i++) {
        const part *p = &r->parts[i];
        const bool same = same_attrs(frame, p->begin, p->end, &saved);
        if (!same || p->random || (any && touches_moved(r, frame, p)))
            code = correct_part(r, frame, i);
    }
    return code;
}

/* ---- running ------------------------------------------------------------------------------------------------------------ */

/* Headers that no call of the range touches may be stale: they are updated before another part runs. */
static void find_watched(mx_captured *r, const mx_frame *frame)
{
    for (int32_t c = r->begin; c < r->end; c++) {
        const mx_kernel_call *call = &frame->calls[c].call;
        for (int k = 0; k < call->n_in + call->n_out; k++) {
            const mx_array *x = k < call->n_in ? call->in[k] : call->out[k - call->n_in];
            const int64_t value = x == MX_NONE ? -1 : x - frame->headers;
            if (value < 0 || r->moved[value] || frame->plan->memory.place[value].kind == MX_PLACE_ARENA)
                continue;
            r->moved[value] = true;
            r->watched[r->n_watched++] = (int32_t)value;
        }
    }
}

static mx_captured *new_captured(const mx_frame *frame, int32_t begin, int32_t end)
{
    mx_captured *r = mx_alloc_zero(sizeof *r);
    if (!r)
        return NULL;
    r->begin = begin, r->end = end;
    r->n_values = frame->plan->program.values.length;
    r->n_attrs = attrs_of(frame, begin, end);
    r->capturer = frame->plan->program.device->capturer;
    r->n_stops = frame->stops ? frame->stops->n : 0;
    r->parts = mx_alloc_zero((size_t)(end - begin + r->n_stops) * sizeof *r->parts);
    r->watched = mx_alloc_zero((size_t)r->n_values * sizeof *r->watched);
    r->seen = mx_alloc_zero((size_t)r->n_values * sizeof *r->seen);
    r->moved = mx_alloc_zero((size_t)r->n_values);
    r->attrs = mx_alloc_zero(r->n_attrs);
    if (!r->parts || !r->watched || !r->seen || !r->moved || (r->n_attrs && !r->attrs)) {
        mx_captured_free(r);
        return NULL;
    }
    find_watched(r, frame);
    return r;
}

static mx_captured *find_captured(mx_frame *frame, int32_t begin, int32_t end)
{
    for (mx_captured *r = frame->captured; r; r = r->next)
        if (r->begin == begin && r->end == end && r->n_stops == (frame->stops ? frame->stops->n : 0))
            return r;
    mx_captured *r = new_captured(frame, begin, end);
    if (r) {
        r->next = frame->captured;
        frame->captured = r;
    }
    return r;
}

bool mx_frame_captures(const mx_frame *frame, int32_t begin, int32_t end)
{
    return frame->plan->capturable && end - begin >= LEAST_CALLS && !mx_kernel_seconds &&
           !mx_profile_watches(MX_PROFILE_NODES) && !mx_has_error();
}

/* A failed capture has run nothing: restores the random numbers and clears the error. */
mx_code mx_frame_run_captured(mx_frame *frame, int32_t begin, int32_t end)
{
    mx_captured *r = find_captured(frame, begin, end);
    if (!r)
        return mx_error_code();
    if (!r->warm || r->failures >= MOST_FAILURES) {
        r->warm = true;
        return mx_frame_run_each(frame, begin, end);
    }
    const mx_rng rng = mx_rng_state();
    const bool again = r->capture != NULL;
    mx_code code = again ? correct(r, frame) : capture(r, frame);
    if (again && !code)
        r->failures = 0;
    if (code) {
        drop(r);
        r->failures++;
        mx_error_clear();
        mx_rng_restore(rng);
        return mx_frame_run_each(frame, begin, end);
    }
    mx_stops_captured += r->n_stops > 0;
    return r->capturer->run(r->capture);
}
