/* Checking mode: what a call of an operator may read and produce.
 *
 * An operator makes NaN or infinity if a visible result holds one and no input does.  Operators that were asked for it (an
 * attribute is infinite, as in full(-inf)) and those that only move elements are left alone; so are 16-bit gradients, which
 * a loss scaler expects to overflow.  Elements are read on the host, so the check waits for the device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "exec/check.h"

#include <math.h>
#include <pthread.h>

#include "base/alloc.h"
#include "base/dict.h"
#include "base/error.h"
#include "base/text.h"
#include "ndarray/convert.h"

#define PIECE 1024 /* elements that are converted at a time */

typedef struct scan {
    int64_t bad;      /* first element that is NaN or infinite; -1: none */
    double value;     /* of it */
    double low, high; /* of the finite ones before it */
} scan;

static mx_code scan_array(const mx_array *x, scan *s)
{
    mx_scope scope = mx_scope_open();
    const mx_array *here = mx_array_to((mx_array *)(uintptr_t)x, mx_cpu(0));
    *s = (scan){-1, 0, INFINITY, -INFINITY};
    if (here)
        mx_array_wait(here);
    const char *data = here ? mx_data(here) : NULL;
    const int64_t item = mx_dtype_size((mx_dtype)x->dtype);
    for (int64_t at = 0; data && at < x->size && s->bad < 0; at += PIECE) {
        double piece[PIECE];
        const int64_t n = x->size - at < PIECE ? x->size - at : PIECE;
        mx_convert(piece, MX_FLOAT64, data + at * item, (mx_dtype)x->dtype, n);
        for (int64_t i = 0; i < n && s->bad < 0; i++) {
            if (!isfinite(piece[i]))
                s->bad = at + i, s->value = piece[i];
            else
                s->low = fmin(s->low, piece[i]), s->high = fmax(s->high, piece[i]);
        }
    }
    mx_scope_close(&scope);
    return here ? MX_OK : mx_error_code();
}

static bool is_scanned(const mx_array *x) { return !mx_is_none(x) && mx_dtype_is_float(x->dtype) && x->size; }

/* The caller asked for it: an attribute is NaN where that is no default, or infinite. */
static bool was_asked_for(const mx_kernel_call *call)
{
    const mx_schema *schema = call->op->schema;
    bool asked = false;
    for (int i = 0; schema && i < schema->count; i++)
        if (schema->fields[i].type == MX_FIELD_FLOAT)
            asked |= isinf(*(const double *)((const char *)call->attrs + schema->fields[i].offset));
    return asked;
}

/* Operators that cannot make a value that was not there. */
static bool only_moves(const mx_op *op) { return op->movement || op->flags & (MX_OP_VIEW | MX_OP_CREATE); }

mx_code mx_check_before(const mx_kernel_call *call, bool *finite)
{
    const bool outer = mx_thread.unchecked;
    mx_thread.unchecked = true;
    mx_code code = call->op->audit ? call->op->audit(call) : MX_OK;
    *finite = !only_moves(call->op);
    for (int i = 0; !code && *finite && i < call->n_in; i++) {
        scan s;
        if (!is_scanned(call->in[i]))
            continue;
        code = scan_array(call->in[i], &s);
        *finite = s.bad < 0;
    }
    mx_thread.unchecked = outer;
    return code;
}

/* "data from -1 to 3, weight from 0 to 1e38" */
static void describe_inputs(const mx_kernel_call *call, mx_text *text)
{
    for (int i = 0; i < call->n_in && i < 4; i++) {
        scan s;
        char name[64];
        if (!is_scanned(call->in[i]) || mx_array_overlap(call->in[i], call->out[0]) || scan_array(call->in[i], &s))
            continue;
        mx_text_print(text, "%s %s from %g to %g",
                      mx_text_get(text)[0] ? "," : "; inputs:", mx_op_input_name(call->op, i, name), s.low, s.high);
    }
}

static mx_code made(const mx_kernel_call *call, const mx_array *out, const scan *s)
{
    char shape[MX_SHAPE_TEXT];
    mx_text inputs = {0};
    const mx_shape_t dims = mx_array_shape(out);
    describe_inputs(call, &inputs);
    const char *kind = isnan(s->value) ? "NaN" : s->value > 0 ? "inf" : "-inf";
    mx_code code =
        mx_op_fail(call->op, MX_ERR_STATE, "made %s from finite inputs, at element %lld of a result of shape %s%s",
                   kind, (long long)s->bad, mx_shape_text(&dims, shape), mx_text_get(&inputs));
    mx_text_free(&inputs);
    return code;
}

static bool may_overflow(const mx_array *out) { return mx_thread.scaled && mx_dtype_size((mx_dtype)out->dtype) == 2; }

mx_code mx_check_after(const mx_kernel_call *call, int n_visible, bool finite)
{
    if (!finite || was_asked_for(call))
        return MX_OK;
    const bool outer = mx_thread.unchecked;
    mx_thread.unchecked = true;
    mx_code code = MX_OK;
    for (int i = 0; !code && i < n_visible; i++) {
        scan s;
        if (!is_scanned(call->out[i]) || may_overflow(call->out[i]))
            continue;
        code = scan_array(call->out[i], &s);
        if (!code && s.bad >= 0)
            code = made(call, call->out[i], &s);
    }
    mx_thread.unchecked = outer;
    return code;
}

/* ---- places ---------------------------------------------------------------------------------------------------- */

const char *mx_check_place(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static mx_dict places; /* for the life of the process: there are as many as blocks have names */
    if (!mx_checking())
        return NULL;
    const char *who = mx_error_context(NULL);
    mx_error_context(who);
    pthread_mutex_lock(&lock);
    const mx_dict_entry *entry = who ? mx_dict_place(&places, who) : NULL;
    const char *place = entry ? entry->key : NULL;
    pthread_mutex_unlock(&lock);
    return place;
}
