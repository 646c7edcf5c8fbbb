/* What an exported block computes, in all ways to run it.  SPDX-License-Identifier: Apache-2.0 */
#ifndef DEPLOY_CHECK_H
#define DEPLOY_CHECK_H

#include "block_check.h"

/* Exports the block, which ran once on `in`, and compares with `wanted`: the files loaded as a block, that block
 * hybridized, and the files compiled into one C file by the compiler CC at `optimize` ("-O1").  Returns whether there was
 * a C file; a network that cannot be written as C must fail with MX_ERR_UNSUPPORTED. */
bool check_deployed(mx_block *block, mx_arrays in, mx_array *wanted, const char *optimize, const char *what);

#endif
