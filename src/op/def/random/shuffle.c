/* Shuffling the rows of an array.  SPDX-License-Identifier: Apache-2.0 */
#include "op/op.h"

mx_op mx_family_shuffle[] = {
    {.name = "_shuffle", .aliases = "shuffle _npi_shuffle", .doc = "shuffles an array along its first axis",
     .inputs = "data", .flags = MX_OP_RANDOM | MX_OP_NO_GRADIENT,
     .samples = (const mx_sample[]){{"5,3", "", 0, 0, "random"}, {"7", "", 0, 0, "random"}, {0}}},
    {0},
};
