/* HDF5 files, as far as programs write arrays into them (Keras and h5py), from the published description of the format.
 *
 *     superblock -> root group -> groups ... -> data sets
 *     a group or a data set is an object: an address of a header, which is a list of messages
 *
 *     hdf5.c       the superblock, the walk over the groups, the result
 *     block.c      parts of the file in memory, errors
 *     object.c     headers of objects and their messages: type, shape, layout, filters, one attribute
 *     group.c      the links of a group: symbol tables, link messages
 *     dense.c      the links of a group of many: a fractal heap and its index
 *     data.c       the elements: contiguous, in the header, or in chunks
 *     chunks.c     the index of chunks, their filters
 *
 * A file is not trusted.  Every structure is read as a block whose bounds are checked against the file before anything is
 * allocated; every block is paid from a budget of a few times the size of the file, so structures that point at one
 * another in a circle end with an error; groups are at most MX_HDF5_DEEPEST levels deep.  Errors name the path of the object.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_NDARRAY_HDF5_H
#define MX_NDARRAY_HDF5_H

#include "base/file.h"
#include "base/vec.h"
#include "ndarray/array.h"
#include "ndarray/params.h"
#include "ndarray/wire.h"

#define MX_HDF5_DEEPEST 32      /* groups within groups */
#define MX_HDF5_LONGEST 512     /* characters of a path */
#define MX_HDF5_NOWHERE INT64_C(-1) /* an address that is not set */
#define MX_HDF5_BEYOND (INT64_C(1) << 60) /* stands for larger addresses and sizes: no file has them, and sums do not overflow */

typedef struct mx_hdf5 {
    mx_reader *reader;              /* not owned */
    int offset_bytes, length_bytes; /* widths of addresses and sizes: 2, 4 or 8 */
    int64_t base;                   /* what addresses are relative to */
    int64_t budget;                 /* bytes that may still be read */
    char path[MX_HDF5_LONGEST];     /* of the object that is being read; "": the root */
    char layer[MX_HDF5_LONGEST];    /* Keras' name for the group that is being read; "": none */
} mx_hdf5;

/* Records "file: at byte p: 'path': ..."; returns false. */
bool mx_hdf5_fail(mx_hdf5 *file, const char *format, ...) MX_PRINTF(2, 3);

/* ---- blocks: parts of the file in memory (block.c) ----------------------------------------------------------------- */
typedef struct mx_hdf5_block {
    unsigned char *bytes;       /* (size) owned by the outermost block; NULL: none */
    int64_t at, size, position; /* address in the file, bytes, where the next number comes from */
    bool failed;                /* a number was beyond the end: all that follow are 0 */
} mx_hdf5_block;

/* Checks the range, pays for it and reads it; `what` is its name in errors. */
bool mx_hdf5_load(mx_hdf5 *file, mx_hdf5_block *block, int64_t at, int64_t size, const char *what);
void mx_hdf5_unload(mx_hdf5_block *block);
/* The next `size` bytes as a block of their own, which owns nothing; empty and failed if there are fewer. */
mx_hdf5_block mx_hdf5_part(mx_hdf5_block *block, int64_t size);
uint64_t mx_hdf5_number(mx_hdf5_block *block, int bytes); /* little-endian, up to 8 bytes */
void mx_hdf5_skip(mx_hdf5_block *block, int64_t bytes);
int64_t mx_hdf5_address(mx_hdf5 *file, mx_hdf5_block *block); /* MX_HDF5_NOWHERE: not set */
int64_t mx_hdf5_length(mx_hdf5 *file, mx_hdf5_block *block);  /* at most MX_HDF5_BEYOND */
/* Whether the block begins with these four characters; moves behind them. */
bool mx_hdf5_signed(mx_hdf5 *file, mx_hdf5_block *block, const char *signature);

/* ---- objects (object.c) --------------------------------------------------------------------------------------------- */
typedef struct mx_hdf5_link {
    char *name;      /* owned */
    int64_t address; /* of the object's header */
} mx_hdf5_link;
typedef MX_VEC(mx_hdf5_link) mx_hdf5_links;

typedef enum mx_hdf5_layout {
    MX_HDF5_NO_LAYOUT,
    MX_HDF5_COMPACT,
    MX_HDF5_CONTIGUOUS,
    MX_HDF5_CHUNKED,
    MX_HDF5_ONE_CHUNK
} mx_hdf5_layout;
enum { MX_HDF5_FILTERS = 8 };

typedef struct mx_hdf5_object {
    bool has_shape;
    mx_shape_t shape;
    bool has_type, text, swap; /* text: elements are characters; swap: big-endian */
    const mx_wire *wire;       /* of the elements; NULL: no numbers */
    int type_class, type_size; /* as the file has them */
    mx_hdf5_layout layout;
    int64_t data, data_size;        /* address of the elements, or of the index of chunks; bytes, -1: unknown */
    int chunk_rank;                 /* axes, and one for the bytes of an element */
    int64_t chunk[MX_MAX_NDIM + 1]; /* sizes of a chunk */
    int filters;
    int filter[MX_HDF5_FILTERS];     /* 1 deflate, 2 shuffle, others are not known; in the order of writing */
    int64_t tree, heap;              /* of a group that is a symbol table; MX_HDF5_NOWHERE: it is none */
    int64_t dense_heap, dense_index; /* of a group with many links */
    bool is_group;
    mx_hdf5_links links; /* those in the header; owned */
    char name[256];      /* the attribute "name", or "dtype" of a data set; "": none */
} mx_hdf5_object;

bool mx_hdf5_object_read(mx_hdf5 *file, int64_t address, mx_hdf5_object *object);
void mx_hdf5_object_free(mx_hdf5_object *object);

/* ---- groups (group.c, dense.c) --------------------------------------------------------------------------------------- */
bool mx_hdf5_add_link(mx_hdf5 *file, mx_hdf5_links *links, const unsigned char *name, int64_t length, int64_t address);
/* A link message: adds it unless it is a symbolic one. */
bool mx_hdf5_link_message(mx_hdf5 *file, mx_hdf5_block *message, mx_hdf5_links *links);
bool mx_hdf5_group_links(mx_hdf5 *file, mx_hdf5_object *group); /* adds those outside of the header */
bool mx_hdf5_dense_links(mx_hdf5 *file, mx_hdf5_object *group);

/* ---- elements (data.c, chunks.c) ------------------------------------------------------------------------------------ */
mx_array *mx_hdf5_array(mx_hdf5 *file, const mx_hdf5_object *object); /* a new reference; NULL with an error */
/* The elements of a data set in chunks; (count * element size) bytes for mx_free, NULL with an error. */
unsigned char *mx_hdf5_chunks(mx_hdf5 *file, const mx_hdf5_object *object, int64_t bytes);

#endif
