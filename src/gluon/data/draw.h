/* Random numbers for one image: a few at a time, from the library's generator.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_DATA_DRAW_H
#define MX_GLUON_DATA_DRAW_H

#include "base/rng.h"
#include "gluon/image.h"

/* Two numbers in [0, 1). */
static inline void mx_draw_two(double *a, double *b)
{
    const mx_rng rng = mx_rng_reserve(1);
    uint32_t words[4];
    mx_philox(rng.seed, rng.counter, words);
    *a = mx_uniform53(words[0], words[1]);
    *b = mx_uniform53(words[2], words[3]);
}

static inline double mx_draw_one(void)
{
    double a, b;
    mx_draw_two(&a, &b);
    return a;
}
/* Parts and a place for the result are given, and the tries come to an end; else an error. */
bool mx_image_parts_ok(const mx_parts *parts, const mx_region *region, const char *function);

#endif
