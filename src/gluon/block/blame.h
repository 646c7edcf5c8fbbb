/* Blocks in the paths of errors (base/blame.h).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_BLAME_H
#define MX_GLUON_BLAME_H

#include "base/blame.h"
#include "gluon/block.h"

/* A call of the block failed: it becomes the beginning of the path, once. */
void mx_block_blame(const mx_block *block);

#endif
