/* Boxes in columns, so that one box is compared with many in a loop without branches.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_BOX_LIST_H
#define MX_CPU_BOX_LIST_H

#include "op/formula/boxes.h"

#define BOX_COLUMNS 6
typedef struct box_list { /* every column: (n) */
    double *left, *top, *right, *bottom, *area;
    double *class_id; /* boxes of different classes are not compared; unused if all are */
} box_list;

/* memory: BOX_COLUMNS * n numbers */
static inline box_list box_list_in(double *memory, int64_t n)
{
    return (box_list){memory, memory + n, memory + 2 * n, memory + 3 * n, memory + 4 * n, memory + 5 * n};
}

static inline void box_list_set(const box_list *list, int64_t i, mx_box b, double class_id)
{
    list->left[i] = b.left, list->top[i] = b.top, list->right[i] = b.right, list->bottom[i] = b.bottom;
    list->area[i] = mx_box_area(b);
    list->class_id[i] = class_id;
}

/* overlap[k - begin] of box b, whose area is given, with boxes [begin, end) of the list. */
static inline void box_list_overlaps(const box_list *list, mx_box b, double area, int64_t begin, int64_t end,
                                     double *restrict overlap)
{
    const double *left = list->left, *top = list->top, *right = list->right, *bottom = list->bottom,
                 *areas = list->area;
    for (int64_t k = begin; k < end; k++) {
        const mx_box other = {left[k], top[k], right[k], bottom[k]};
        overlap[k - begin] = mx_box_overlap_of(b, area, other, areas[k]);
    }
}

static inline mx_box box_list_get(const box_list *list, int64_t i)
{
    return (mx_box){list->left[i], list->top[i], list->right[i], list->bottom[i]};
}

/* Marks with 1 in `gone` all boxes of [at + 1, end) that box `at` suppresses: an overlap above the threshold (or
 * equal to it, where `equal`) and, unless `all_classes`, the same class. */
#define BOX_TILE 256
static inline void box_list_suppress(const box_list *list, int64_t at, int64_t end, double threshold, bool equal,
                                     bool all_classes, unsigned char *gone)
{
    double overlap[BOX_TILE];
    const double own = list->class_id[at];
    for (int64_t begin = at + 1; begin < end; begin += BOX_TILE) {
        const int64_t n = end - begin < BOX_TILE ? end - begin : BOX_TILE;
        box_list_overlaps(list, box_list_get(list, at), list->area[at], begin, begin + n, overlap);
        for (int64_t k = 0; k < n; k++)
            gone[begin + k] |=
                mx_box_suppressed(overlap[k], threshold, equal) & (all_classes | (list->class_id[begin + k] == own));
    }
}

#endif
