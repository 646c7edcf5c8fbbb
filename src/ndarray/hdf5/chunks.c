/* Elements in chunks: a tree lists the chunks of equal size that cover the array, each packed on its own (see hdf5.h).
 *
 * The list is read first.  The array is allocated only if every chunk is there once and could hold its elements: not packed,
 * or packed by at most what deflate can do.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/gzip.h"
#include "ndarray/hdf5/hdf5.h"

enum { MOST_LEVELS = 16, DEFLATE = 1, SHUFFLE = 2, MOST_GROWTH = 1032 };

typedef struct piece {
    int64_t at, size;          /* in the file */
    uint32_t skipped;          /* filters that were not applied, a bit each */
    int64_t from[MX_MAX_NDIM]; /* first element */
} piece;
typedef MX_VEC(piece) pieces;

/* What is known about all chunks. */
typedef struct grid {
    const mx_hdf5_object *o;
    int rank;
    int64_t element, bytes; /* of one element, of one chunk unpacked */
    int64_t count;          /* of chunks that cover the array */
    int64_t along[MX_MAX_NDIM];
} grid;

/* ---- the list ------------------------------------------------------------------------------------------------------- */

static bool make_grid(mx_hdf5 *file, const mx_hdf5_object *o, grid *g)
{
    *g = (grid){.o = o, .rank = o->chunk_rank - 1, .element = o->wire->size, .bytes = o->wire->size, .count = 1};
    if (g->rank != o->shape.ndim || o->chunk[g->rank] != g->element)
        return mx_hdf5_fail(
            file, "chunks of %d axes and elements of %" PRId64 " bytes do not fit an array of %d axes and %" PRId64,
            g->rank, o->chunk[g->rank], o->shape.ndim, g->element);
    for (int i = 0; i < g->rank; i++) {
        g->along[i] = (o->shape.dim[i] + o->chunk[i] - 1) / o->chunk[i];
        if (__builtin_mul_overflow(g->bytes, o->chunk[i], &g->bytes) || g->bytes > UINT32_MAX ||
            __builtin_mul_overflow(g->count, g->along[i], &g->count))
            return mx_hdf5_fail(file, "the chunks are too large, or too many");
    }
    for (int i = 0; i < o->filters; i++)
        if (o->filter[i] != DEFLATE && o->filter[i] != SHUFFLE)
            return mx_hdf5_fail(file,
                                "the elements are packed by filter %d; only deflate (1, gzip) and shuffle (2) are read",
                                o->filter[i]);
    return true;
}

static bool uses(const grid *g, const piece *p, int filter)
{
    for (int i = 0; i < g->o->filters; i++)
        if (g->o->filter[i] == filter && !(p->skipped >> i & 1))
            return true;
    return false;
}

static bool add_piece(mx_hdf5 *file, const grid *g, pieces *list, piece p)
{
    const bool packed = uses(g, &p, DEFLATE);
    for (int i = 0; i < g->rank; i++)
        if (p.from[i] < 0 || p.from[i] >= g->o->shape.dim[i] || p.from[i] % g->o->chunk[i])
            return mx_hdf5_fail(file, "a chunk starts at element %" PRId64 " of axis %d: the file is damaged",
                                p.from[i], i);
    if (p.at < 0 || p.size < 0 || p.at > file->reader->size || p.size > file->reader->size - p.at)
        return mx_hdf5_fail(
            file, "a chunk (%" PRId64 " bytes at %" PRId64 ") is outside the file: damaged or truncated", p.size, p.at);
    if (packed ? p.size < g->bytes / MOST_GROWTH : p.size != g->bytes)
        return mx_hdf5_fail(file, "a chunk has %" PRId64 " bytes, which cannot hold its %" PRId64, p.size, g->bytes);
    if (list->length >= g->count)
        return mx_hdf5_fail(file, "there are more than the %" PRId64 " chunks that cover the array", g->count);
    return mx_vec_push(list, p);
}

/* A node: signature, type, level, count, siblings, then { key, child }; a key is size, skipped filters, first element. */
static bool read_node(mx_hdf5 *file, const grid *g, int64_t address, int level, pieces *list)
{
    mx_hdf5_block head, node;
    const int64_t head_size = 8 + 2 * file->offset_bytes, entry = 8 + 8 * (g->rank + 1) + file->offset_bytes;
    if (!mx_hdf5_load(file, &head, address, head_size, "the index of the chunks"))
        return false;
    bool fine = mx_hdf5_signed(file, &head, "TREE");
    const int type = (int)mx_hdf5_number(&head, 1), found = (int)mx_hdf5_number(&head, 1);
    const int64_t count = (int64_t)mx_hdf5_number(&head, 2);
    mx_hdf5_unload(&head);
    if (fine && (type != 1 || found > MOST_LEVELS || (level >= 0 && found != level)))
        fine = mx_hdf5_fail(file, "the index of the chunks has a node of type %d and level %d: the file is damaged",
                            type, found);
    if (!fine || !mx_hdf5_load(file, &node, address + head_size, count * entry, "the index of the chunks"))
        return false;
    for (int64_t i = 0; fine && i < count; i++) {
        piece p = {.size = (int64_t)mx_hdf5_number(&node, 4)};
        p.skipped = (uint32_t)mx_hdf5_number(&node, 4);
        for (int k = 0; k < g->rank; k++)
            p.from[k] = (int64_t)mx_hdf5_number(&node, 8);
        mx_hdf5_skip(&node, 8);
        p.at = mx_hdf5_address(file, &node);
        fine = found ? read_node(file, g, p.at, found - 1, list) : add_piece(file, g, list, p);
    }
    mx_hdf5_unload(&node);
    return fine;
}

static bool list_pieces(mx_hdf5 *file, const grid *g, pieces *list)
{
    const mx_hdf5_object *o = g->o;
    if (o->data == MX_HDF5_NOWHERE)
        return mx_hdf5_fail(file, "the array has a shape and no elements: they were never written");
    if (o->layout == MX_HDF5_ONE_CHUNK) {
        if (!add_piece(file, g, list, (piece){.at = o->data, .size = o->data_size < 0 ? g->bytes : o->data_size}))
            return false;
    } else if (!read_node(file, g, o->data, -1, list))
        return false;
    if (list->length != g->count)
        return mx_hdf5_fail(file, "only %" PRId64 " of %" PRId64 " chunks were ever written", list->length, g->count);
    return true;
}

/* ---- one chunk ------------------------------------------------------------------------------------------------------ */

/* Shuffled: the first bytes of all elements, then the second ones ... */
static void unshuffle(const unsigned char *from, unsigned char *to, int64_t bytes, int64_t element)
{
    const int64_t count = bytes / element;
    for (int64_t k = 0; k < element; k++)
        for (int64_t i = 0; i < count; i++)
            to[i * element + k] = from[k * count + i];
}

/* zlib's form of deflate: two bytes, of which the first says deflate and the second has no dictionary; a checksum last. */
static bool inflate_piece(mx_hdf5 *file, const mx_hdf5_block *packed, unsigned char *to, int64_t bytes)
{
    const unsigned char *p = packed->bytes;
    if (packed->size < 6 || (p[0] & 15) != 8 || p[1] & 32 || (p[0] * 256 + p[1]) % 31)
        return mx_hdf5_fail(file, "a chunk is not packed by zlib: the file is damaged");
    char who[MX_HDF5_LONGEST + 256];
    snprintf(who, sizeof who, "%.240s: '/%s'", file->reader->name, file->path);
    return mx_inflate(who, p + 2, packed->size - 2, to, bytes);
}

/* The elements of a chunk in `to` (bytes); `spare` is as large. */
static bool unpack(mx_hdf5 *file, const grid *g, const piece *p, unsigned char *to, unsigned char *spare)
{
    mx_hdf5_block packed;
    const bool shuffled = uses(g, p, SHUFFLE), deflated = uses(g, p, DEFLATE);
    if (!mx_hdf5_load(file, &packed, p->at, p->size, "a chunk"))
        return false;
    unsigned char *first = shuffled ? spare : to;
    bool fine = true;
    if (deflated)
        fine = inflate_piece(file, &packed, first, g->bytes);
    else
        memcpy(first, packed.bytes, (size_t)g->bytes);
    if (fine && shuffled)
        unshuffle(spare, to, g->bytes, g->element);
    mx_hdf5_unload(&packed);
    return fine;
}

/* Copies the part of a chunk that is inside the array, row by row. */
static void place(const grid *g, const piece *p, const unsigned char *chunk, unsigned char *array)
{
    const int64_t *dim = g->o->shape.dim, *side = g->o->chunk;
    const int last = g->rank - 1;
    const int64_t left = dim[last] - p->from[last], row = left < side[last] ? left : side[last];
    int64_t index[MX_MAX_NDIM] = {0};
    for (int axis = 0; axis >= 0;) {
        int64_t from = 0, to = 0;
        for (int i = 0; i < g->rank; i++) {
            from = from * side[i] + index[i];
            to = to * dim[i] + p->from[i] + index[i];
        }
        memcpy(array + to * g->element, chunk + from * g->element, (size_t)(row * g->element));
        for (axis = last - 1; axis >= 0; axis--) { /* the next row, or an end */
            if (++index[axis] < side[axis] && p->from[axis] + index[axis] < dim[axis])
                break;
            index[axis] = 0;
        }
    }
}

static int64_t number_of(const grid *g, const piece *p)
{
    int64_t number = 0;
    for (int i = 0; i < g->rank; i++)
        number = number * g->along[i] + p->from[i] / g->o->chunk[i];
    return number;
}

static bool fill(mx_hdf5 *file, const grid *g, const pieces *list, unsigned char *array)
{
    unsigned char *chunk = mx_alloc((size_t)g->bytes), *spare = mx_alloc((size_t)g->bytes);
    unsigned char *seen = mx_alloc_zero((size_t)g->count);
    bool fine = chunk && spare && seen;
    for (int64_t i = 0; fine && i < list->length; i++) {
        unsigned char *mark = &seen[number_of(g, &list->items[i])];
        if ((*mark)++)
            fine = mx_hdf5_fail(file, "a chunk is listed twice: the file is damaged");
        else if ((fine = unpack(file, g, &list->items[i], chunk, spare)))
            place(g, &list->items[i], chunk, array);
    }
    mx_free(chunk, (size_t)g->bytes);
    mx_free(spare, (size_t)g->bytes);
    mx_free(seen, (size_t)g->count);
    return fine;
}

unsigned char *mx_hdf5_chunks(mx_hdf5 *file, const mx_hdf5_object *o, int64_t bytes)
{
    grid g;
    pieces list = {0};
    unsigned char *array = NULL;
    bool fine = make_grid(file, o, &g) && list_pieces(file, &g, &list) && (array = mx_alloc((size_t)bytes)) != NULL &&
                fill(file, &g, &list, array);
    mx_vec_free(&list);
    if (!fine) {
        mx_free(array, (size_t)bytes);
        return NULL;
    }
    return array;
}
