/* How exact every operator is: its samples at random sizes, in every floating-point type, beside its reference in double.
 *
 * Differences are in ulp, units in the last place of the type.  For a function of single elements that is the place of the
 * wanted result; for sums, products and everything else, where terms cancel, the place of the largest result of the call.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ACCURACY_H
#define TESTS_ACCURACY_H

#include <stdio.h>

#include "ops_check.h"

#define ACCURACY_ELEMENTS 6000 /* of any array: references are slow */
#define ACCURACY_TYPES 4

extern const mx_dtype accuracy_types[ACCURACY_TYPES];

/* The largest difference of an operator per type; < 0: the type is not supported. */
typedef struct accuracy_entry {
    double ulp[ACCURACY_TYPES];
    long calls[ACCURACY_TYPES];
    bool finite; /* all results of the last case are */
} accuracy_entry;

/* The case with other sizes; false: no other sizes fit. */
bool accuracy_resize(const ops_case *c, uint64_t *state, ops_case *other);
/* The case with 0-d arrays, for operators whose inputs have one shape. */
bool accuracy_scalar(const ops_case *c, ops_case *other);
/* Runs the case in every type, on windows into larger storages; reports wrong results through ops_fail.  True: all results
 * are finite. */
bool accuracy_measure(const ops_case *c, accuracy_entry *entry);

/* The table as Markdown: its head, one operator.  Comparing: the types of the operator's line are still supported, and
 * differences are hardly larger. */
void accuracy_write_head(FILE *file);
void accuracy_write(FILE *file, const mx_op *op, const accuracy_entry *entry);
void accuracy_compare(const char *path, mx_op *op, const accuracy_entry *entry);

#endif
