/* Internals of initializers (the classes are in gluon/def/initializers.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_INITIALIZE_H
#define MX_GLUON_INITIALIZE_H

#include "base/object.h"
#include "gluon/class/class.h"
#include "gluon/parameter.h"

struct mx_initializer {
    mx_object object;
    const mx_class *cls; /* NULL: a user's function or a value */
    void *options;       /* typed options of the class */
    mx_array *value;     /* retained; Constant with an array */
    mx_fill_fn fill;     /* of users; NULL: the class's */
    void *user;
    void (*release)(void *user);
};

/* mx_class.methods of MX_INITIALIZER: writes the initial value of parameter `name` into `array`, on the CPU. */
typedef struct mx_initializer_methods {
    mx_code (*fill)(const void *options, const char *name, mx_array *array);
    mx_code (*check)(const void *options); /* checks options beyond the schema's rules; NULL: nothing to check */
} mx_initializer_methods;

extern const mx_kind mx_initializer_kind;
mx_initializer *mx_initializer_make(mx_class *cls, const void *options); /* owned by the scope */

/* ---- drawing (initial_values.c) ---------------------------------------------------------------------------------- */
/* Random numbers from the operators, so that a seed reproduces them. */
mx_code mx_draw_uniform(mx_array *array, double low, double high);
mx_code mx_draw_normal(mx_array *array, double mean, double deviation);
/* Writes `count` doubles, converted to the array's type. */
mx_code mx_array_write_doubles(mx_array *array, const double *values, int64_t count);

/* Replaces the rows of a (rows, columns) matrix, or its columns if there are fewer, by an orthonormal system. */
mx_code mx_orthonormalize(double *matrix, int64_t rows, int64_t columns);

#endif
