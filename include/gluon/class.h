/* Classes: descriptions of layers, losses, initializers, optimizers, learning-rate schedules and metrics.
 *
 * Each is described once, like an operator: name, documentation, options.  The constructors of <gluon/nn.gen.h>
 * (mx_dense(10, .activation = "relu"), mx_xavier(), mx_adam(.learning_rate = 0.01) ...) are generated from it, and so
 * are the classes of other languages.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_CLASS_H
#define GLUON_CLASS_H

#include "gluon/base.h"

typedef struct mx_class mx_class;

typedef enum mx_class_kind {
    MX_LAYER,       /* creates an mx_block */
    MX_LOSS,        /* creates an mx_block of (prediction, label, sample weight) */
    MX_INITIALIZER,
    MX_OPTIMIZER,
    MX_LR_SCHEDULER,
    MX_METRIC,
    MX_CLASS_KINDS
} mx_class_kind;

MX_API mx_class *mx_class_find(mx_class_kind kind, const char *name); /* any case, or an alias; NULL with an error */
MX_API mx_class *mx_class_at(int i);                                  /* NULL past the end */
MX_API const char *mx_class_name(const mx_class *cls);
MX_API mx_class_kind mx_class_kind_of(const mx_class *cls);
MX_API const char *mx_class_describe(const mx_class *cls); /* JSON, as mx_op_describe; belongs to the scope */
/* An object of the class from options in text, "units=10, activation=relu"; NULL: all defaults. */
MX_API void *mx_class_create(mx_class *cls, const char *options);

#endif
