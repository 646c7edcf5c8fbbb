/* Decimal digits of a binary float: the fewest that distinguish it from its neighbours, or a given number, exactly.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_NDARRAY_DIGITS_H
#define MX_NDARRAY_DIGITS_H

#include "gluon/array.h"

#define MX_MOST_DIGITS 40

typedef struct mx_digits {
    int count;                  /* at least 1; no trailing zeros except the single "0" of zero */
    int exponent;               /* the value is d.ddd * 10^exponent */
    char digit[MX_MOST_DIGITS]; /* '0'..'9' */
} mx_digits;

typedef struct mx_digits_rule {
    bool fractional; /* the two limits count digits after the point; else digits after the first digit */
    int most;        /* at most so many; -1: as many as it takes to be unique */
    int least;       /* at least so many, exact beyond the unique ones; 0: no minimum */
} mx_digits_rule;

/* Digits of |value|, finite, which an array of type dtype (a float type) can hold exactly. */
mx_digits mx_digits_of(double value, mx_dtype dtype, mx_digits_rule rule);

#endif
