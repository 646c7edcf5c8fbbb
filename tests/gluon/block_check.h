/* What the tests of blocks, losses and data share.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_TESTS_BLOCK_CHECK_H
#define MX_TESTS_BLOCK_CHECK_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "gluon.h"

/* A float32 array of numbers that look random and are always the same; different seeds give different arrays. */
mx_array *check_array(mx_dims shape, int seed);
/* The same, integers in [0, below). */
mx_array *check_integers(mx_dims shape, int seed, int below);
/* All elements as doubles, in memory that is reused after 16 calls; fails the test for more than 4096 elements. */
const double *check_values(mx_array *x);
/* x has these dims and values (relative to the size of the largest one). */
void check_near(mx_array *x, mx_dims shape, const double *wanted, double tolerance);
void check_same(mx_array *a, mx_array *b); /* shape, type and every element */
void check_shape(mx_array *x, mx_dims shape);
/* There is an error with this code whose message contains all of the parts; it is cleared. */
#define check_error(code, ...) check_error_parts(code, (const char *const[]){__VA_ARGS__, NULL}, __FILE__, __LINE__)
void check_error_parts(mx_code code, const char *const *parts, const char *file, int line);
void check_no_error(void);
/* The full names of all parameters, separated by spaces; belongs to static memory. */
const char *check_names(mx_params *params);
int64_t check_live(void);                 /* allocated blocks, after freeing what the scope holds */
const char *check_file(const char *name); /* path of a file in a folder of this process's own; static memory */

#endif
