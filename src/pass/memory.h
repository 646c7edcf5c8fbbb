/* Where the values of a program are stored.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_PASS_MEMORY_H
#define MX_PASS_MEMORY_H

#include "pass/program.h"

typedef enum mx_place_kind {
    MX_PLACE_NOWHERE,  /* no live step touches it */
    MX_PLACE_ARENA,    /* `at`: offset in bytes */
    MX_PLACE_EXTERNAL, /* `at`: slot */
    MX_PLACE_RESULT,     /* `at`: result whose array it is */
    MX_PLACE_PREPARED, /* `at`: offset in bytes in the block of prepared values */
} mx_place_kind;
typedef struct mx_place {
    mx_place_kind kind;
    int64_t at;
} mx_place;

typedef struct mx_memory {
    mx_place *place;    /* (values) */
    int64_t values;     /* for freeing */
    int64_t arena;      /* bytes */
    int64_t prepared;   /* bytes of prepared values */
    int64_t *workspace; /* (steps) offset of the step's workspace in the arena; -1: none */
    int64_t steps;      /* for freeing */
} mx_memory;

/* workspace (steps): bytes that each step's kernel needs. */
mx_code mx_memory_plan(mx_memory *memory, const mx_program *program, const size_t *workspace);
void mx_memory_free(mx_memory *memory);

#endif
