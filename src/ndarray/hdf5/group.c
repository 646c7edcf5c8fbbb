/* The links of a group of an HDF5 file (see hdf5.h).
 *
 * The old form is a symbol table: a tree of nodes (TREE) whose leaves (SNOD) list names and addresses; the names are in a
 * heap of the group (HEAP).  The new form are link messages in the header, or, if there are many, in another heap (dense.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ndarray/hdf5/hdf5.h"

enum { MOST_LEVELS = 16 }; /* of a tree */

bool mx_hdf5_add_link(mx_hdf5 *file, mx_hdf5_links *links, const unsigned char *name, int64_t length, int64_t address)
{
    if (length <= 0 || memchr(name, '/', (size_t)length) || memchr(name, 0, (size_t)length))
        return mx_hdf5_fail(file, "a name in the group is empty, or has a '/' or a zero byte in it");
    if (length >= MX_HDF5_LONGEST - (int64_t)strlen(file->path) - 1)
        return mx_hdf5_fail(file, "a path in the group is longer than %d characters", MX_HDF5_LONGEST);
    char text[MX_HDF5_LONGEST] = {0};
    memcpy(text, name, (size_t)length);
    mx_hdf5_link link = {mx_strdup(text), address};
    if (link.name && mx_vec_push(links, link))
        return true;
    mx_strfree(link.name);
    return false;
}

bool mx_hdf5_link_message(mx_hdf5 *file, mx_hdf5_block *m, mx_hdf5_links *links)
{
    const int version = (int)mx_hdf5_number(m, 1), flags = (int)mx_hdf5_number(m, 1);
    if (version != 1)
        return mx_hdf5_fail(file, "a link of version %d is not known", version);
    const int kind = flags & 8 ? (int)mx_hdf5_number(m, 1) : 0;
    mx_hdf5_skip(m, (flags & 4 ? 8 : 0) + (flags & 16 ? 1 : 0));
    const int64_t length = (int64_t)(mx_hdf5_number(m, 1 << (flags & 3)) & INT64_MAX);
    const mx_hdf5_block name = mx_hdf5_part(m, length);
    if (kind || m->failed) /* symbolic links name an object that has a hard link, too, or one of another file */
        return true;
    const int64_t address = mx_hdf5_address(file, m);
    return m->failed || mx_hdf5_add_link(file, links, name.bytes, name.size, address);
}

/* ---- symbol tables ------------------------------------------------------------------------------------------------- */

static bool load_heap(mx_hdf5 *file, int64_t address, mx_hdf5_block *names)
{
    mx_hdf5_block head;
    if (!mx_hdf5_load(file, &head, address, 8 + 2 * file->length_bytes + file->offset_bytes, "the names of a group"))
        return false;
    bool fine = mx_hdf5_signed(file, &head, "HEAP");
    mx_hdf5_skip(&head, 4);
    const int64_t size = mx_hdf5_length(file, &head);
    mx_hdf5_skip(&head, file->length_bytes);
    const int64_t at = mx_hdf5_address(file, &head);
    mx_hdf5_unload(&head);
    return fine && mx_hdf5_load(file, names, at, size, "the names of a group");
}

/* A leaf: { offset of the name, address, kind, reserved, 16 bytes } */
static bool read_leaf(mx_hdf5 *file, int64_t address, const mx_hdf5_block *names, mx_hdf5_links *links)
{
    mx_hdf5_block head, leaf;
    if (!mx_hdf5_load(file, &head, address, 8, "a part of a group"))
        return false;
    bool fine = mx_hdf5_signed(file, &head, "SNOD");
    mx_hdf5_skip(&head, 2);
    const int64_t count = (int64_t)mx_hdf5_number(&head, 2), entry = 2 * file->offset_bytes + 24;
    mx_hdf5_unload(&head);
    if (!fine || !mx_hdf5_load(file, &leaf, address + 8, count * entry, "a part of a group"))
        return false;
    for (int64_t i = 0; fine && i < count; i++) {
        const uint64_t name = mx_hdf5_number(&leaf, file->offset_bytes);
        const int64_t object = mx_hdf5_address(file, &leaf);
        const int kind = (int)mx_hdf5_number(&leaf, 4);
        mx_hdf5_skip(&leaf, 20);
        const unsigned char *text = name < (uint64_t)names->size ? names->bytes + name : NULL;
        const unsigned char *end = text ? memchr(text, 0, (size_t)((uint64_t)names->size - name)) : NULL;
        if (!end)
            fine = mx_hdf5_fail(file, "name %" PRId64 " of the group is outside its heap: the file is damaged", i);
        else if (kind != 2) /* a symbolic link */
            fine = mx_hdf5_add_link(file, links, text, end - text, object);
    }
    mx_hdf5_unload(&leaf);
    return fine;
}

/* An inner node: signature, type, level, count, two siblings, then { key, child } and a last key.  Levels decrease. */
static bool read_node(mx_hdf5 *file, int64_t address, int level, const mx_hdf5_block *names, mx_hdf5_links *links)
{
    mx_hdf5_block head, node;
    const int64_t head_size = 8 + 2 * file->offset_bytes, entry = file->length_bytes + file->offset_bytes;
    if (!mx_hdf5_load(file, &head, address, head_size, "the tree of a group"))
        return false;
    bool fine = mx_hdf5_signed(file, &head, "TREE");
    const int type = (int)mx_hdf5_number(&head, 1), found = (int)mx_hdf5_number(&head, 1);
    const int64_t count = (int64_t)mx_hdf5_number(&head, 2);
    mx_hdf5_unload(&head);
    if (fine && (type || found > MOST_LEVELS || (level >= 0 && found != level)))
        fine = mx_hdf5_fail(file, "the tree of the group has a node of type %d and level %d: the file is damaged", type,
                            found);
    if (!fine || !mx_hdf5_load(file, &node, address + head_size, count * entry, "the tree of a group"))
        return false;
    for (int64_t i = 0; fine && i < count; i++) {
        mx_hdf5_skip(&node, file->length_bytes);
        const int64_t child = mx_hdf5_address(file, &node);
        fine = found ? read_node(file, child, found - 1, names, links) : read_leaf(file, child, names, links);
    }
    mx_hdf5_unload(&node);
    return fine;
}

bool mx_hdf5_group_links(mx_hdf5 *file, mx_hdf5_object *group)
{
    mx_hdf5_block names;
    if (group->dense_heap != MX_HDF5_NOWHERE)
        return mx_hdf5_dense_links(file, group);
    if (group->tree == MX_HDF5_NOWHERE)
        return true;
    if (!load_heap(file, group->heap, &names))
        return false;
    const bool fine = read_node(file, group->tree, -1, &names, &group->links);
    mx_hdf5_unload(&names);
    return fine;
}
