/* Checking mode: before an exchange, processes compare what each is about to do (see check.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_COMM_CHECK_H
#define MX_COMM_CHECK_H

#include "comm/engine.h"

const char *mx_comm_describe(const mx_exchange *what, char *text, size_t room); /* "all_reduce of 10 float32 (sum)" */
mx_code mx_comm_check_start(mx_work *work, const mx_transport *transport);      /* gathers the descriptions */
mx_code mx_comm_check_compare(mx_work *work, const mx_transport *transport);    /* an error if they differ */
void mx_comm_check_free(mx_work *work);

#endif
