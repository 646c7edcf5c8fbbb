/* Boolean masks as keys: a mask with k axes stands for k index arrays, the places where it is true.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/error.h"
#include "exec/index.h"

static bool is_mask(const mx_key *key)
{
    return key->kind == MX_KEY_ARRAY && key->index && key->index != MX_NONE && key->index->dtype == MX_BOOL &&
           key->index->storage;
}

bool mx_keys_have_mask(const mx_key *keys, int count)
{
    for (int i = 0; keys && i < count; i++)
        if (is_mask(&keys[i]))
            return true;
    return false;
}

/* The places of `true`, axis after axis: (ndim, n). */
static int64_t *places_of(const mx_array *mask, int64_t *n)
{
    unsigned char *bits = mx_alloc((size_t)mask->size + 1);
    int64_t *places = NULL, found = 0, at = 0;
    if (!bits || mx_array_read(mask, bits, (size_t)mask->size)) {
        mx_free(bits, (size_t)mask->size + 1);
        return NULL;
    }
    for (int64_t i = 0; i < mask->size; i++)
        found += bits[i] != 0;
    *n = found;
    if ((places = mx_alloc((size_t)(mask->ndim * found + 1) * sizeof *places)))
        for (int64_t i = 0; i < mask->size; i++) {
            if (!bits[i])
                continue;
            int64_t rest = i;
            for (int axis = mask->ndim - 1; axis >= 0; rest /= mask->shape[axis--])
                places[axis * found + at] = rest % mask->shape[axis];
            at++;
        }
    mx_free(bits, (size_t)mask->size + 1);
    return places;
}

static mx_code check_mask(const mx_array *x, const mx_array *mask, int axis, const char *who)
{
    if (mask->ndim == 0)
        return mx_fail(MX_ERR_INDEX, "%s: a single bool is not an index", who);
    for (int i = 0; axis >= 0 && i < mask->ndim; i++)
        if (axis + i >= x->ndim || mask->shape[i] != x->shape[axis + i])
            return mx_fail(MX_ERR_INDEX, "%s: a mask of size %lld does not fit axis %d of size %lld", who,
                           (long long)mask->shape[i], axis + i,
                           (long long)(axis + i < x->ndim ? x->shape[axis + i] : 0));
    return MX_OK;
}

static mx_code add_places(const mx_array *x, const mx_array *mask, mx_key *wide, int *n_wide)
{
    int64_t n = 0, *places = places_of(mask, &n);
    const mx_shape_t shape = {.ndim = 1, .dim = {n}};
    mx_code code = places ? MX_OK : mx_error_code();
    for (int axis = 0; !code && axis < mask->ndim; axis++) {
        mx_array *index = mx_scope_add(mx_array_of_bytes(&shape, MX_INT64, x->context, places + axis * n));
        wide[(*n_wide)++] = MX_PICK(index);
        code = index ? MX_OK : mx_error_code();
    }
    mx_free(places, (size_t)(mask->ndim * n + 1) * sizeof *places);
    return code;
}

int mx_keys_without_masks(const mx_array *x, const mx_key *keys, int count, const char *who, mx_key *wide)
{
    int n = 0, axis = 0; /* axis: of x that the next key takes; -1: unknown after an ellipsis */
    for (int i = 0; i < count; i++) {
        const int taken = keys[i].kind == MX_KEY_NEWAXIS ? 0 : is_mask(&keys[i]) ? keys[i].index->ndim : 1;
        if (n + taken >= MX_MOST_KEYS)
            return mx_fail(MX_ERR_INDEX, "%s: too many indices", who), -1;
        if (!is_mask(&keys[i]))
            wide[n++] = keys[i];
        else if (check_mask(x, keys[i].index, axis, who) || add_places(x, keys[i].index, wide, &n))
            return -1;
        axis = axis < 0 || keys[i].kind == MX_KEY_ELLIPSIS ? -1 : axis + taken;
    }
    return n;
}
