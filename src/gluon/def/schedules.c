/* The learning-rate schedules: the rate as a function of the number of updates.
 *
 * All begin with an optional warmup: for warmup_steps updates the rate rises linearly from warmup_begin_lr to the
 * initial base rate of the schedule ("linear"), or stays at warmup_begin_lr ("constant").
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "gluon/train/learning.h"

#define WARMUP(X) \
    X(FLOAT, base_lr, "0.01", "", "rate after the warmup; an optimizer's own learning rate replaces it") \
    X(INT, warmup_steps, "0", "0..", "number of updates of the warmup") \
    X(FLOAT, warmup_begin_lr, "0", "", "rate at the start of the warmup") \
    X(STR, warmup_mode, "linear", "", "linear or constant")

/* The warmup's options, which are at different offsets in each struct. */
typedef struct warmup {
    double base_lr;
    int64_t steps;
    double begin;
    const char *mode;
} warmup;

#define FACTOR_OPTIONS(X) \
    X(INT, step, REQUIRED, "1..", "the rate changes after every `step` updates") \
    X(FLOAT, factor, "1", "..1", "factor that the rate is multiplied by") \
    X(FLOAT, stop_factor_lr, "1e-08", "", "the rate never falls below it") WARMUP(X)
MX_ATTRS(factor_scheduler, FACTOR_OPTIONS)

#define MULTI_FACTOR_OPTIONS(X) \
    X(DIMS, step, REQUIRED, "", "numbers of updates after which the rate changes, ascending") \
    X(FLOAT, factor, "1", "..1", "factor that the rate is multiplied by") WARMUP(X) \
    X(STR, more_steps, "None", "", "more numbers as a string, '170 180 190', if a tuple is too short")
MX_ATTRS(multi_factor_scheduler, MULTI_FACTOR_OPTIONS)

#define POLY_OPTIONS(X) \
    X(INT, max_update, REQUIRED, "1..", "number of updates until final_lr is reached") \
    X(FLOAT, base_lr, "0.01", "", "rate after the warmup") \
    X(FLOAT, pwr, "2", "", "power of the decay") \
    X(FLOAT, final_lr, "0", "", "rate at the end") \
    X(INT, warmup_steps, "0", "0..", "number of updates of the warmup") \
    X(FLOAT, warmup_begin_lr, "0", "", "rate at the start of the warmup") \
    X(STR, warmup_mode, "linear", "", "linear or constant")
MX_ATTRS(poly_scheduler, POLY_OPTIONS)

#define COSINE_OPTIONS(X) \
    X(INT, max_update, REQUIRED, "1..", "number of updates until final_lr is reached") \
    X(FLOAT, base_lr, "0.01", "", "rate after the warmup") \
    X(FLOAT, final_lr, "0", "", "rate at the end") \
    X(INT, warmup_steps, "0", "0..", "number of updates of the warmup") \
    X(FLOAT, warmup_begin_lr, "0", "", "rate at the start of the warmup") \
    X(STR, warmup_mode, "linear", "", "linear or constant")
MX_ATTRS(cosine_scheduler, COSINE_OPTIONS)

/* ---- warmup ------------------------------------------------------------------------------------------------------ */

enum { START_LR, COUNT }; /* of state: the initial base rate; updates or steps so far */

#define warmup_of(o) ((warmup){(o)->base_lr, (o)->warmup_steps, (o)->warmup_begin_lr, (o)->warmup_mode})

static mx_code start(mx_lr_scheduler *self, warmup w)
{
    int mode;
    const char *name = self->cls->name;
    if (w.steps && w.begin > w.base_lr)
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: warmup_begin_lr=%g is higher than base_lr=%g", name, w.begin, w.base_lr);
    self->base_lr = self->state[START_LR] = w.base_lr;
    return mx_option_choice(name, "warmup_mode", w.mode, "linear|constant", &mode);
}

static double warmup_rate(const mx_lr_scheduler *self, warmup w, int64_t n)
{
    if (!strcmp(w.mode, "constant"))
        return w.begin;
    return w.begin + (self->state[START_LR] - w.begin) * (double)n / (double)w.steps;
}

/* ---- FactorScheduler --------------------------------------------------------------------------------------------- */

static mx_code start_factor(mx_lr_scheduler *self)
{
    const mx_factor_scheduler_attrs *o = self->options;
    return start(self, warmup_of(o));
}

static double factor_rate(mx_lr_scheduler *self, int64_t n)
{
    const mx_factor_scheduler_attrs *o = self->options;
    if (n < o->warmup_steps)
        return warmup_rate(self, warmup_of(o), n);
    while ((double)n > self->state[COUNT] + (double)o->step) {
        const double before = self->base_lr;
        self->state[COUNT] += (double)o->step;
        self->base_lr *= o->factor;
        if (self->base_lr < o->stop_factor_lr)
            self->base_lr = o->stop_factor_lr;
        if (!(self->base_lr < before || self->base_lr > before)) { /* it stays so, however many steps there are */
            self->state[COUNT] +=
                (double)o->step * fmax(0, ceil(((double)n - self->state[COUNT]) / (double)o->step) - 1);
            break;
        }
    }
    return self->base_lr;
}

/* ---- MultiFactorScheduler ---------------------------------------------------------------------------------------- */

/* Step i, first those of the tuple, then those of the string; -1: no more; 0: not a number. */
static int64_t step_at(const mx_multi_factor_scheduler_attrs *o, int64_t i)
{
    if (i < o->step.n)
        return o->step.d[i];
    const char *p = o->more_steps ? o->more_steps : "";
    for (int64_t skip = i - (o->step.n > 0 ? o->step.n : 0);; skip--) {
        char *end;
        p += strspn(p, " ,");
        if (!*p)
            return -1;
        const long long value = strtoll(p, &end, 10);
        if (end == p || value < 1)
            return 0;
        if (!skip)
            return value;
        p = end;
    }
}

static mx_code start_multi_factor(mx_lr_scheduler *self)
{
    const mx_multi_factor_scheduler_attrs *o = self->options;
    int64_t last = 0, value;
    if (o->step.n < 1)
        return mx_fail(MX_ERR_ATTRIBUTE, "MultiFactorScheduler: step is empty, wanted ascending numbers of updates");
    for (int64_t i = 0; (i < o->step.n || step_at(o, i) != -1); i++, last = value) {
        value = step_at(o, i);
        if (value <= last)
            return mx_fail(MX_ERR_ATTRIBUTE, "MultiFactorScheduler: step %lld is %lld, wanted ascending numbers from 1",
                           (long long)i, (long long)value);
    }
    return start(self, warmup_of(o));
}

static double multi_factor_rate(mx_lr_scheduler *self, int64_t n)
{
    const mx_multi_factor_scheduler_attrs *o = self->options;
    if (n < o->warmup_steps)
        return warmup_rate(self, warmup_of(o), n);
    for (int64_t i = (int64_t)self->state[COUNT]; step_at(o, i) > 0 && n > step_at(o, i); i++) {
        self->state[COUNT] = (double)(i + 1);
        self->base_lr *= o->factor;
    }
    return self->base_lr;
}

/* ---- PolyScheduler and CosineScheduler --------------------------------------------------------------------------- */

/* Both go from the first base rate to final_lr while `progress` goes from 0 to 1. */
static mx_code start_falling(mx_lr_scheduler *self, warmup w, int64_t max_update)
{
    if (w.steps > max_update)
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: warmup_steps=%lld is more than max_update=%lld", self->cls->name,
                       (long long)w.steps, (long long)max_update);
    return start(self, w);
}

static double progress(int64_t n, int64_t warmup_steps, int64_t max_update)
{
    return n >= max_update ? 1 : (double)(n - warmup_steps) / (double)(max_update - warmup_steps);
}

static double fall(mx_lr_scheduler *self, double final_lr, double left)
{
    self->base_lr = final_lr + (self->state[START_LR] - final_lr) * left;
    return self->base_lr;
}

static mx_code start_poly(mx_lr_scheduler *self)
{
    const mx_poly_scheduler_attrs *o = self->options;
    return start_falling(self, warmup_of(o), o->max_update);
}

static double poly_rate(mx_lr_scheduler *self, int64_t n)
{
    const mx_poly_scheduler_attrs *o = self->options;
    if (n < o->warmup_steps)
        return warmup_rate(self, warmup_of(o), n);
    return fall(self, o->final_lr, pow(1 - progress(n, o->warmup_steps, o->max_update), o->pwr));
}

static mx_code start_cosine(mx_lr_scheduler *self)
{
    const mx_cosine_scheduler_attrs *o = self->options;
    return start_falling(self, warmup_of(o), o->max_update);
}

static double cosine_rate(mx_lr_scheduler *self, int64_t n)
{
    const mx_cosine_scheduler_attrs *o = self->options;
    if (n < o->warmup_steps)
        return warmup_rate(self, warmup_of(o), n);
    return fall(self, o->final_lr, (1 + cos(3.141592653589793 * progress(n, o->warmup_steps, o->max_update))) / 2);
}

#define METHODS(start, rate) &(const mx_lr_scheduler_methods){start, rate}

mx_class mx_classes_schedules[] = {
    {.kind = MX_LR_SCHEDULER, .name = "FactorScheduler", .doc = "the rate times `factor` after every `step` updates",
     .schema = &factor_scheduler_schema, .positional = 1, .methods = METHODS(start_factor, factor_rate)},
    {.kind = MX_LR_SCHEDULER, .name = "MultiFactorScheduler",
     .doc = "the rate times `factor` after each of the given numbers of updates",
     .schema = &multi_factor_scheduler_schema, .positional = 1,
     .methods = METHODS(start_multi_factor, multi_factor_rate)},
    {.kind = MX_LR_SCHEDULER, .name = "PolyScheduler",
     .doc = "falls to final_lr like a power of the updates that are left",
     .schema = &poly_scheduler_schema, .positional = 1, .methods = METHODS(start_poly, poly_rate)},
    {.kind = MX_LR_SCHEDULER, .name = "CosineScheduler", .doc = "falls to final_lr like half a cosine wave",
     .schema = &cosine_scheduler_schema, .positional = 1, .methods = METHODS(start_cosine, cosine_rate)},
    {0},
};
