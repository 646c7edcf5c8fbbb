/* Lists of arrays (see list.h).  SPDX-License-Identifier: Apache-2.0 */
#include "exec/list.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ndarray/sparse.h"

#define LONGEST 1000000 /* a list without MX_END is detected here at the latest */

typedef struct list_object {
    mx_object object;
    int64_t n;
    mx_array *items[]; /* not owned: the arrays are in the scope themselves */
} list_object;

static void destroy_list(mx_object *object)
{
    list_object *list = (list_object *)object;
    mx_free(list, sizeof *list + (size_t)list->n * sizeof(mx_array *));
}
static const mx_kind list_kind = {"list", destroy_list};

mx_array **mx_list_new(int64_t n)
{
    if (n < 0 || n > LONGEST)
        return mx_fail_null(MX_ERR_ARGUMENT, "a list of %lld arrays is too long", (long long)n);
    size_t bytes = sizeof(list_object) + (size_t)n * sizeof(mx_array *);
    list_object *list = mx_alloc_zero(bytes);
    if (!list)
        return NULL;
    mx_object_init(&list->object, &list_kind);
    list->n = n;
    list = mx_scope_add(list);
    return list ? list->items : NULL;
}

mx_arrays mx_list_failed(void)
{
    static mx_array *const nothing[64];
    return (mx_arrays){nothing, 0};
}

static mx_code check(mx_arrays *list, const char *who, const char *argument, bool optional, bool sparse)
{
    if (!list->v && list->n)
        return mx_fail(MX_ERR_ARGUMENT, "%s: %s is NULL, wanted a list of arrays", who, argument);
    if (list->n < 0)
        for (list->n = 0; list->v[list->n] != MX_END; list->n++)
            if (list->n == LONGEST)
                return mx_fail(MX_ERR_ARGUMENT, "%s: %s has no end (MX_END is missing)", who, argument);
    for (int64_t i = 0; i < list->n; i++)
        if (!(optional && list->v[i] == MX_NONE) &&
            !(sparse ? mx_array_any_ok : mx_array_ok)(list->v[i], who, argument))
            return mx_error_code();
    return MX_OK;
}

mx_code mx_list_check(mx_arrays *list, const char *who, const char *argument)
{
    return check(list, who, argument, false, false);
}
mx_code mx_list_check_optional(mx_arrays *list, const char *who, const char *argument)
{
    return check(list, who, argument, true, false);
}
mx_code mx_list_check_any(mx_arrays *list, const char *who, const char *argument)
{
    return check(list, who, argument, false, true);
}
mx_code mx_list_check_inputs(mx_arrays *list, const char *who, const char *argument)
{
    return check(list, who, argument, true, true);
}
