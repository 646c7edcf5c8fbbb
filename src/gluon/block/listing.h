/* The parameters of a network with the names that files give them (save.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_LISTING_H
#define MX_GLUON_LISTING_H

#include "gluon/block/core.h"

/* Names with their parameters, in order. */
typedef struct mx_listing {
    MX_VEC(char *) names;          /* owned */
    MX_VEC(mx_parameter *) params; /* owned by the network */
} mx_listing;

/* By structure: paths of attribute names, "features.1.bias". */
mx_code mx_listing_fill(mx_listing *l, mx_block *block);
void mx_listing_free(mx_listing *l);
/* The saved value of a parameter: the first context's copy, on the CPU (all copies are equal after an update). */
mx_array *mx_listing_value(mx_parameter *p);

#endif
