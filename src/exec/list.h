/* Lists of arrays: checking arguments, creating results.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_EXEC_LIST_H
#define MX_EXEC_LIST_H

#include "ndarray/array.h"

/* Counts up to MX_END if n is -1 and checks every element; errors name `who` and `argument`. */
mx_code mx_list_check(mx_arrays *list, const char *who, const char *argument);
mx_code mx_list_check_any(mx_arrays *list, const char *who, const char *argument);      /* sparse ones allowed */
mx_code mx_list_check_optional(mx_arrays *list, const char *who, const char *argument); /* MX_NONE allowed */
mx_code mx_list_check_inputs(mx_arrays *list, const char *who, const char *argument);   /* MX_NONE and sparse ones */
/* Memory for n pointers (NULL at first) that belongs to the scope. */
mx_array **mx_list_new(int64_t n);
mx_arrays mx_list_failed(void); /* n 0; v points to NULLs */

#endif
