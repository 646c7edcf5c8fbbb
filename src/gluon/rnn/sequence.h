/* Sequences as one array or as a list of steps.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_RNN_SEQUENCE_H
#define MX_GLUON_RNN_SEQUENCE_H

#include "gluon/cell.h"
#include "ndarray/array.h"

/* Arrays belong to the scope. */
typedef struct mx_sequence {
    mx_array *one;   /* (N, T, ...) or (T, N, ...); NULL: a list */
    mx_arrays steps; /* each (N, ...) */
} mx_sequence;

/* The axes of time and batch in "NTC" or "TNC". */
typedef struct mx_sequence_layout {
    int time, batch;
} mx_sequence_layout;
mx_code mx_sequence_layout_from(const char *layout, mx_sequence_layout *axes);

bool mx_sequence_symbolic(const mx_sequence *s);
int64_t mx_sequence_batch(const mx_sequence *s, const mx_sequence_layout *axes); /* 0 for symbolic ones */
int64_t mx_sequence_length(const mx_sequence *s, const char *layout);            /* number of steps; -1: not known */
/* Checks the number of steps (length < 0: any) and converts to the wanted form. */
mx_code mx_sequence_form(mx_sequence *s, int64_t length, const mx_sequence_layout *axes, mx_merge merge);
/* Zeros past the end of each sequence; as one array, or as a list if merge says so. */
mx_code mx_sequence_zero_past(mx_sequence *s, int64_t length, mx_array *valid_length, const mx_sequence_layout *axes,
                              bool merge);
/* The last valid element of each sequence, from those of all steps. */
mx_array *mx_sequence_end(mx_arrays steps, mx_array *valid_length);
/* The steps backwards; with valid_length (NULL: none) each sequence begins at its own end, and what is past it stays. */
mx_arrays mx_sequence_backwards(mx_arrays steps, mx_array *valid_length);

#endif
