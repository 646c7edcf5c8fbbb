/* The links of a group with many of them, in the new form: a fractal heap holds the link messages, a tree of the second
 * version (BTHD) lists where in the heap they are (see hdf5.h).
 *
 * The heap is an address space of blocks: rows of `width` blocks, whose sizes are s, s, 2 s, 4 s, ...; the first rows are
 * blocks of data (FHDB), later ones are blocks of such rows (FHIB).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "ndarray/hdf5/hdf5.h"

enum { MOST_LEVELS = 16, MOST_WIDTH = 1024, NAME_INDEX = 5 };

typedef struct heap {
    int id_bytes;                      /* of a place in the heap, as the index has it */
    int at_bytes, size_bytes;          /* in such a place: offset, length */
    int64_t width, first, most_direct; /* blocks of a row, bytes of the first, bytes of the largest with data */
    int64_t root;                      /* address */
    int root_rows;                     /* 0: the root is a block of data */
    int filters;
} heap;

static int bytes_of(int64_t most) /* that a number up to `most` needs */
{
    int bytes = 1;
    while (most >>= 8)
        bytes++;
    return bytes;
}

static bool read_heap(mx_hdf5 *file, int64_t address, heap *h)
{
    mx_hdf5_block b;
    const int64_t L = file->length_bytes, O = file->offset_bytes;
    if (!mx_hdf5_load(file, &b, address, 22 + 12 * L + 3 * O, "the heap of a group"))
        return false;
    bool fine = mx_hdf5_signed(file, &b, "FRHP");
    mx_hdf5_skip(&b, 1);
    h->id_bytes = (int)mx_hdf5_number(&b, 2), h->filters = (int)mx_hdf5_number(&b, 2);
    mx_hdf5_skip(&b, 1);
    const int64_t most_managed = (int64_t)mx_hdf5_number(&b, 4);
    mx_hdf5_skip(&b, 10 * L + 2 * O); /* counts, sizes and places of free, huge and tiny parts */
    h->width = (int64_t)mx_hdf5_number(&b, 2);
    h->first = mx_hdf5_length(file, &b), h->most_direct = mx_hdf5_length(file, &b);
    const int bits = (int)mx_hdf5_number(&b, 2);
    mx_hdf5_skip(&b, 2);
    h->root = mx_hdf5_address(file, &b);
    h->root_rows = (int)mx_hdf5_number(&b, 2);
    mx_hdf5_unload(&b);
    h->at_bytes = (bits + 7) / 8;
    const int64_t longest = most_managed < h->most_direct ? most_managed : h->most_direct;
    h->size_bytes = bytes_of(longest);
    if (fine && (b.failed || h->filters || bits < 1 || bits > 62 || h->width < 1 || h->width > MOST_WIDTH ||
                 h->first < 1 || h->first > h->most_direct || h->most_direct > (int64_t)1 << 32 || h->root_rows > 64))
        fine = mx_hdf5_fail(file, "the heap of the group is damaged, or of a kind that is not read");
    return fine;
}

static int64_t row_size(const heap *h, int row)
{
    const int shift = row ? row - 1 : 0;
    return shift > 40 || h->first > INT64_MAX >> (shift + 12) ? INT64_MAX / MOST_WIDTH : h->first << shift;
}

/* Follows blocks of rows to the block of data that has the offset `at`: its address and first offset. */
static bool find_block(mx_hdf5 *file, const heap *h, int64_t at, int64_t *address, int64_t *first)
{
    *address = h->root, *first = 0;
    int rows = h->root_rows;
    for (int level = 0; rows; level++) {
        int64_t entry = 0;
        int row = 0;
        for (int64_t size; row < rows && (size = row_size(h, row)) * h->width <= at - *first; row++)
            *first += size * h->width, entry += h->width;
        if (row >= rows || level >= MOST_LEVELS)
            return mx_hdf5_fail(file, "a place in the heap of the group is outside it: the file is damaged");
        const int64_t size = row_size(h, row), column = (at - *first) / size;
        *first += column * size, entry += column;
        mx_hdf5_block b;
        const int64_t start = 5 + file->offset_bytes + h->at_bytes;
        if (!mx_hdf5_load(file, &b, *address, start + (entry + 1) * file->offset_bytes, "the heap of a group"))
            return false;
        const bool fine = mx_hdf5_signed(file, &b, "FHIB");
        b.position = start + entry * file->offset_bytes;
        *address = mx_hdf5_address(file, &b);
        mx_hdf5_unload(&b);
        if (!fine)
            return false;
        rows = 0; /* a block of data, or one of rows that make up its size */
        for (int64_t sum = 0; size > h->most_direct && sum < size && rows < 64; rows++)
            sum += row_size(h, rows) * h->width;
    }
    return true;
}

static bool read_link(mx_hdf5 *file, const heap *h, mx_hdf5_block *id, mx_hdf5_links *links)
{
    mx_hdf5_block b;
    int64_t address, first;
    const int kind = (int)mx_hdf5_number(id, 1);
    const int64_t at = (int64_t)mx_hdf5_number(id, h->at_bytes), size = (int64_t)mx_hdf5_number(id, h->size_bytes);
    if (kind || id->failed || at < 0 || at > MX_HDF5_BEYOND)
        return mx_hdf5_fail(file, "a link of the group is too long for its heap, or damaged");
    if (!find_block(file, h, at, &address, &first) ||
        !mx_hdf5_load(file, &b, address < 0 ? MX_HDF5_BEYOND : address + (at - first), size, "a link of a group"))
        return false;
    bool fine = mx_hdf5_link_message(file, &b, links);
    if (fine && b.failed)
        fine = mx_hdf5_fail(file, "a link of the group is damaged");
    mx_hdf5_unload(&b);
    return fine;
}

/* ---- the index ------------------------------------------------------------------------------------------------------- */

typedef struct tree {
    int64_t node_size, record;
    int count_bytes[MOST_LEVELS + 1]; /* of the number of records in a child of that level */
    int total_bytes[MOST_LEVELS + 1]; /* and in all below it */
} tree;

/* How many records a node of a level holds, which says how wide numbers in the file are. */
static void size_levels(mx_hdf5 *file, tree *t, int depth)
{
    double all = 0;
    for (int level = 0; level <= depth; level++) {
        const int64_t pointer =
            level ? file->offset_bytes + t->count_bytes[level - 1] + (level > 1 ? t->total_bytes[level - 1] : 0) : 0;
        const int64_t most = (t->node_size - 10 - pointer) / (t->record + pointer);
        all = level ? (double)(most + 1) * all + (double)most : (double)most;
        t->count_bytes[level] = bytes_of(most);
        t->total_bytes[level] = bytes_of(all < 9e18 ? (int64_t)all : INT64_MAX);
    }
}

static bool read_tree(mx_hdf5 *file, const tree *t, const heap *h, int64_t address, int64_t count, int level,
                      mx_hdf5_links *links)
{
    mx_hdf5_block b;
    if (!mx_hdf5_load(file, &b, address, t->node_size, "the index of a group"))
        return false;
    bool fine = mx_hdf5_signed(file, &b, level ? "BTIN" : "BTLF");
    mx_hdf5_skip(&b, 2);
    for (int64_t i = 0; fine && i < count; i++) { /* hash of the name, place in the heap */
        mx_hdf5_block record = mx_hdf5_part(&b, t->record);
        mx_hdf5_skip(&record, 4);
        fine = read_link(file, h, &record, links);
    }
    for (int64_t i = 0; fine && level && i <= count; i++) {
        const int64_t child = mx_hdf5_address(file, &b);
        const int64_t records = (int64_t)(mx_hdf5_number(&b, t->count_bytes[level - 1]) & INT64_MAX);
        mx_hdf5_skip(&b, level > 1 ? t->total_bytes[level - 1] : 0);
        fine = read_tree(file, t, h, child, records, level - 1, links);
    }
    mx_hdf5_unload(&b);
    return fine;
}

bool mx_hdf5_dense_links(mx_hdf5 *file, mx_hdf5_object *group)
{
    heap h = {0};
    tree t = {0};
    mx_hdf5_block b;
    if (!read_heap(file, group->dense_heap, &h) ||
        !mx_hdf5_load(file, &b, group->dense_index, 18 + file->offset_bytes, "the index of a group"))
        return false;
    bool fine = mx_hdf5_signed(file, &b, "BTHD");
    mx_hdf5_skip(&b, 1);
    const int type = (int)mx_hdf5_number(&b, 1);
    t.node_size = (int64_t)mx_hdf5_number(&b, 4), t.record = (int64_t)mx_hdf5_number(&b, 2);
    const int depth = (int)mx_hdf5_number(&b, 2);
    mx_hdf5_skip(&b, 2);
    const int64_t root = mx_hdf5_address(file, &b), count = (int64_t)mx_hdf5_number(&b, 2);
    mx_hdf5_unload(&b);
    if (fine && (type != NAME_INDEX || depth > MOST_LEVELS || t.record != 4 + h.id_bytes || t.node_size < 64 ||
                 h.id_bytes < 1 + h.at_bytes + h.size_bytes))
        fine = mx_hdf5_fail(file, "the index of the group (type %d, depth %d) is damaged", type, depth);
    if (!fine || root == MX_HDF5_NOWHERE)
        return fine;
    size_levels(file, &t, depth);
    return read_tree(file, &t, &h, root, count, depth, &group->links);
}
