/* Blocked channels: what the pass that chooses layouts asks the CPU.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_BLOCKED_H
#define MX_OP_BLOCKED_H

/* Channels that its convolutions like to have side by side: the lanes of a vector; 0: data stays plain.
 * Defined in cpu/. */
int mx_cpu_block(void);

#endif
