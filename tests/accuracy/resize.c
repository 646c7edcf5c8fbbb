/* Cases of other sizes (see accuracy.h): equal sizes stay equal, inference decides whether the shapes fit together.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "accuracy.h"
#include "base/error.h"

#define SIZES 32 /* different sizes in a case */

/* Around the widths of vectors, of tiles and of blocks of channels. */
static const int64_t odd_sizes[] = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65, 127};

/* The different sizes of a case above 1, which is broadcast. */
static int sizes_of(const ops_case *c, int64_t *sizes)
{
    int n = 0;
    for (int k = 0; k < c->n_in; k++)
        for (int i = 0; !c->absent[k] && i < c->shape[k].ndim; i++) {
            int at = 0;
            while (at < n && sizes[at] != c->shape[k].dim[i])
                at++;
            if (at == n && n < SIZES && c->shape[k].dim[i] > 1)
                sizes[n++] = c->shape[k].dim[i];
        }
    return n;
}

static void replace_size(const ops_case *from, ops_case *to, int64_t size, int64_t by)
{
    for (int k = 0; k < from->n_in; k++)
        for (int i = 0; !from->absent[k] && i < from->shape[k].ndim; i++)
            if (from->shape[k].dim[i] == size)
                to->shape[k].dim[i] = by;
}

static bool fits(const ops_case *c)
{
    ops_values shapes = {.n = c->n_in};
    mx_shape_t out[MX_MAX_OUTPUTS];
    int types[OPS_MAX_IN], out_types[MX_MAX_OUTPUTS];
    memcpy(shapes.shape, c->shape, sizeof c->shape);
    for (int k = 0; k < OPS_MAX_IN; k++)
        types[k] = MX_FLOAT32;
    bool ok = true;
    for (int k = 0; ok && k < c->n_in; k++)
        ok = c->absent[k] || mx_shape_size(&c->shape[k]) <= ACCURACY_ELEMENTS;
    ok = ok && ops_infer(c, &shapes, types, out, out_types);
    for (int i = 0; ok && i < c->n_out; i++)
        ok = !mx_shape_known(&out[i]) || mx_shape_size(&out[i]) <= ACCURACY_ELEMENTS;
    mx_error_clear();
    return ok;
}

/* References of factorisations and of CTCLoss have room for small matrices only. */
static int64_t most_of(const ops_case *c)
{
    const bool small = c->dominant || c->symmetric || strstr(c->op->name, "linalg") || !strcmp(c->op->name, "CTCLoss");
    return small ? 31 : 127;
}

/* Sizes only grow, since indices among the values are smaller than the size that they index. */
static int64_t larger(int64_t size, int64_t most, uint64_t *state)
{
    const int n = sizeof odd_sizes / sizeof *odd_sizes;
    const int64_t chosen = odd_sizes[(int)(ops_random(state) * n)];
    const int64_t grown = chosen > size ? chosen : size + (int64_t)(ops_random(state) * 3);
    return grown <= most ? grown : size;
}

bool accuracy_resize(const ops_case *c, uint64_t *state, ops_case *other)
{
    int64_t sizes[SIZES];
    const int n = sizes_of(c, sizes);
    bool changed = false;
    *other = *c;
    for (int i = 0; i < n; i++) {
        ops_case grown = *other;
        const int64_t by = larger(sizes[i], most_of(c), state);
        replace_size(c, &grown, sizes[i], by);
        if (by == sizes[i] || !fits(&grown))
            continue;
        *other = grown;
        changed = true;
    }
    return changed;
}

bool accuracy_scalar(const ops_case *c, ops_case *other)
{
    *other = *c;
    for (int k = 0; k < c->n_in; k++)
        if (!c->absent[k]) {
            if (!mx_shape_equal(&c->shape[k], &c->shape[0]))
                return false;
            other->shape[k].ndim = 0;
        }
    return c->n_in && !c->absent[0] && mx_shape_size(&c->shape[0]) && fits(other);
}
