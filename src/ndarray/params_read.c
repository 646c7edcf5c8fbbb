/* Reading the records of a .params file: all four versions, dense and sparse.
 *
 *     V0:   u32 ndim, u32 sizes           | context, dtype, elements
 *     V1:   magic, shape                  | context, dtype, elements
 *     V2/3: magic, stype, [stored], shape | context, dtype, [aux types and shapes], elements, [aux elements]
 *
 * Nothing is allocated for elements before the file is known to hold them, so memory stays within the size of the file
 * (twice that for integers that are read into a wider type).  A sparse record is expanded; it may grow to
 * SPARSE_FREE bytes, or to SPARSE_GROWTH times its size in the file.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ndarray/params.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "ndarray/convert.h"
#include "ndarray/dtype.h"
#include "ndarray/wire.h"

#define SPARSE_FREE ((int64_t)64 << 20)
#define SPARSE_GROWTH 1024

enum { DENSE = 0, ROW_SPARSE = 1, CSR = 2 };

typedef struct part { /* elements that follow the head of the record */
    const mx_wire *wire;
    mx_shape_t shape;
    int64_t size; /* elements */
} part;

typedef struct record {
    mx_reader *reader;
    int stype;
    mx_shape_t shape; /* of the array */
    int64_t size;     /* its elements */
    part data;        /* the elements in the file: all, or those of a sparse array */
    part aux[2];      /* row_sparse: indices; csr: indptr, indices */
} record;

static int32_t get_i32(mx_reader *reader, const char *what)
{
    uint32_t value = 0;
    mx_reader_u32(reader, &value, what);
    return (int32_t)value;
}

static bool get_dims(mx_reader *reader, mx_shape_t *shape, bool wide, const char *what)
{
    if (reader->failed)
        return false;
    if (shape->ndim < 0 || shape->ndim > MX_MAX_NDIM)
        return mx_reader_fail(reader, "%s has %d axes, wanted 0 to %d", what, (int)shape->ndim, MX_MAX_NDIM);
    for (int i = 0; i < shape->ndim; i++) {
        uint32_t narrow = 0;
        if (wide)
            mx_reader_i64(reader, &shape->dim[i], what);
        else if (mx_reader_u32(reader, &narrow, what))
            shape->dim[i] = narrow;
    }
    return !reader->failed;
}

static bool get_shape(mx_reader *reader, mx_shape_t *shape, const char *what)
{
    *shape = (mx_shape_t){.ndim = get_i32(reader, what)};
    return get_dims(reader, shape, true, what);
}

static const mx_wire *get_type(mx_reader *reader, const char *what)
{
    int32_t code = get_i32(reader, what);
    const mx_wire *wire = mx_wire_of(code);
    if (!wire && !reader->failed)
        mx_reader_fail(reader, "%s is %d, which is no element type", what, (int)code);
    return reader->failed ? NULL : wire;
}

/* Context and element type; the context is where the array once lived, and does not matter here. */
static bool get_kind(record *r)
{
    int32_t device = get_i32(r->reader, "the device type");
    get_i32(r->reader, "the device number");
    bool known = device == MX_CPU || device == MX_GPU || device == MX_CPU_PINNED || device == MX_CPU_SHARED;
    if (!known && !r->reader->failed)
        return mx_reader_fail(r->reader, "the device type is %d, wanted 1 (cpu), 2, 3 or 5", (int)device);
    r->data.wire = get_type(r->reader, "the element type");
    return r->data.wire != NULL;
}

static bool count_part(record *r, part *p, const char *what)
{
    p->size = mx_wire_elements(r->reader, p->shape.dim, p->shape.ndim, what);
    return p->size >= 0 && mx_reader_need_items(r->reader, (uint64_t)p->size, (uint64_t)p->wire->size, what);
}

static mx_array *new_array(const record *r)
{
    return mx_array_new(&r->shape, (mx_dtype)r->data.wire->dtype, mx_cpu(0));
}

/* ---- dense ------------------------------------------------------------------------------------------------- */
static mx_array *read_dense(record *r)
{
    r->data.shape = r->shape;
    if (!get_kind(r) || !count_part(r, &r->data, "the elements"))
        return NULL;
    mx_array *x = new_array(r);
    if (x && !mx_wire_read(r->reader, r->data.wire, false, mx_data(x), x->size, "the elements")) {
        mx_release(x);
        return NULL;
    }
    return x;
}

/* ---- sparse ------------------------------------------------------------------------------------------------ */
static bool is_vector(const part *p, int64_t length) { return p->shape.ndim == 1 && p->shape.dim[0] == length; }

static bool row_sparse_fits(const record *r)
{
    const mx_shape_t *stored = &r->data.shape, *shape = &r->shape;
    bool fits = stored->ndim == shape->ndim && shape->ndim > 0 && stored->dim[0] <= shape->dim[0];
    for (int i = 1; fits && i < shape->ndim; i++)
        fits = stored->dim[i] == shape->dim[i];
    return fits && is_vector(&r->aux[0], stored->dim[0]);
}

static bool csr_fits(const record *r)
{
    return r->shape.ndim == 2 && is_vector(&r->data, r->data.size) && is_vector(&r->aux[1], r->data.size) &&
           (is_vector(&r->aux[0], r->shape.dim[0] + 1) || (r->data.size == 0 && r->aux[0].size == 0));
}

static bool get_sparse_head(record *r)
{
    static const char *const names[] = {"the first index array", "the second index array"};
    bool fits = get_kind(r);
    for (int i = 0; fits && i < r->stype; i++) {
        r->aux[i].wire = get_type(r->reader, names[i]);
        fits = r->aux[i].wire && get_shape(r->reader, &r->aux[i].shape, names[i]);
        if (fits && !r->aux[i].wire->integer)
            return mx_reader_fail(r->reader, "%s is of type %s, wanted integers", names[i], r->aux[i].wire->name);
    }
    /* MXNet writes a stored shape of (0,) for matrices that came from SciPy; then the index array tells. */
    const mx_shape_t *indices = &r->aux[r->stype - 1].shape;
    if (fits && r->data.shape.ndim > 0 && r->data.shape.dim[0] == 0 && indices->ndim == 1)
        r->data.shape.dim[0] = indices->dim[0];
    fits = fits && count_part(r, &r->data, "the stored elements");
    for (int i = 0; fits && i < r->stype; i++)
        fits = count_part(r, &r->aux[i], names[i]);
    r->size = fits ? mx_wire_elements(r->reader, r->shape.dim, r->shape.ndim, "the array") : -1;
    if (r->size < 0)
        return false;
    if (!(r->stype == CSR ? csr_fits(r) : row_sparse_fits(r)))
        return mx_reader_fail(r->reader, "the shapes of the parts of a sparse array contradict each other");
    int64_t bytes = r->size * mx_dtype_size((mx_dtype)r->data.wire->dtype), stored = r->data.size * r->data.wire->size;
    for (int i = 0; i < r->stype; i++)
        stored += r->aux[i].size * r->aux[i].wire->size;
    if (bytes > SPARSE_FREE && bytes / SPARSE_GROWTH > stored)
        return mx_reader_fail(r->reader,
                              "a sparse array of %" PRId64 " stored bytes would grow to %" PRId64
                              " bytes when expanded, which is refused",
                              stored, bytes);
    return true;
}

/* Reads an index array as int64 into memory of its own, (p->size). */
static int64_t *read_indices(record *r, const part *p)
{
    size_t bytes = (size_t)p->size * sizeof(int64_t);
    int64_t *indices = mx_alloc(bytes);
    void *narrow = indices ? mx_alloc((size_t)(p->size * mx_dtype_size((mx_dtype)p->wire->dtype))) : NULL;
    if (narrow && mx_wire_read(r->reader, p->wire, false, narrow, p->size, "the indices")) {
        mx_convert(indices, MX_INT64, narrow, (mx_dtype)p->wire->dtype, p->size);
    } else {
        mx_free(indices, bytes);
        indices = NULL;
    }
    mx_free(narrow, (size_t)(p->size * mx_dtype_size((mx_dtype)p->wire->dtype)));
    return indices;
}

static bool bad_index(record *r, int64_t index, int64_t limit)
{
    return mx_reader_fail(r->reader, "a sparse array has the index %" PRId64 ", wanted 0 to %" PRId64, index,
                          limit - 1);
}

/* x[indices[i]] = data[i], rows of `row` bytes */
static bool expand_rows(record *r, char *x, const char *data, const int64_t *indices)
{
    size_t row = (size_t)mx_dtype_size((mx_dtype)r->data.wire->dtype);
    for (int i = 1; i < r->shape.ndim; i++)
        row *= (size_t)r->shape.dim[i];
    for (int64_t i = 0; i < r->aux[0].size; i++) {
        if (indices[i] < 0 || indices[i] >= r->shape.dim[0])
            return bad_index(r, indices[i], r->shape.dim[0]);
        memcpy(x + (size_t)indices[i] * row, data + (size_t)i * row, row);
    }
    return true;
}

/* x[i, indices[j]] = data[j] for j in [start[i], start[i + 1]) */
static bool expand_csr(record *r, char *x, const char *data, const int64_t *start, const int64_t *indices)
{
    size_t item = (size_t)mx_dtype_size((mx_dtype)r->data.wire->dtype);
    int64_t rows = r->shape.dim[0], columns = r->shape.dim[1];
    if (r->aux[0].size == 0)
        return true;
    if (start[0] != 0 || start[rows] != r->data.size)
        return mx_reader_fail(r->reader, "the row starts of a csr array do not cover its %" PRId64 " elements",
                              r->data.size);
    for (int64_t i = 0; i < rows; i++) {
        if (start[i + 1] < start[i] || start[i + 1] > r->data.size)
            return mx_reader_fail(r->reader, "row %" PRId64 " of a csr array ends before it starts", i);
        for (int64_t j = start[i]; j < start[i + 1]; j++) {
            if (indices[j] < 0 || indices[j] >= columns)
                return bad_index(r, indices[j], columns);
            memcpy(x + (size_t)(i * columns + indices[j]) * item, data + (size_t)j * item, item);
        }
    }
    return true;
}

static mx_array *read_sparse(record *r)
{
    if (!get_sparse_head(r))
        return NULL;
    size_t bytes = (size_t)(r->data.size * mx_dtype_size((mx_dtype)r->data.wire->dtype));
    char *data = mx_alloc(bytes);
    int64_t *aux[2] = {NULL, NULL};
    bool fine = data && mx_wire_read(r->reader, r->data.wire, false, data, r->data.size, "the stored elements");
    for (int i = 0; fine && i < r->stype; i++)
        fine = (aux[i] = read_indices(r, &r->aux[i])) != NULL;
    mx_array *x = fine ? new_array(r) : NULL;
    if (x && x->size) {
        memset(mx_data(x), 0, mx_bytes(x));
        fine = r->stype == CSR ? expand_csr(r, mx_data(x), data, aux[0], aux[1])
                               : expand_rows(r, mx_data(x), data, aux[0]);
    }
    for (int i = 0; i < r->stype; i++)
        mx_free(aux[i], (size_t)r->aux[i].size * sizeof(int64_t));
    mx_free(data, bytes);
    if (fine)
        return x;
    mx_release(x);
    return NULL;
}

/* ---- a record ---------------------------------------------------------------------------------------------- */
/* Reads the head up to the shape; sets *none if the record ends there. */
static bool get_head(record *r, bool *none)
{
    uint32_t magic = 0;
    if (!mx_reader_u32(r->reader, &magic, "a record"))
        return false;
    bool extended = magic == MX_PARAMS_V2 || magic == MX_PARAMS_V3;
    if (magic != MX_PARAMS_V1 && !extended) {
        if (magic > MX_MAX_NDIM)
            return mx_reader_fail(r->reader,
                                  "a record starts with 0x%08" PRIx32 ", wanted 0x%08x or a number of "
                                  "axes up to %d",
                                  magic, MX_PARAMS_V2, MX_MAX_NDIM);
        r->shape.ndim = (int32_t)magic;
        *none = magic == 0;
        return get_dims(r->reader, &r->shape, false, "the shape");
    }
    if (extended) {
        r->stype = get_i32(r->reader, "the storage kind");
        if (r->stype < DENSE || r->stype > CSR)
            return mx_reader_fail(r->reader, "the storage kind is %d, wanted 0, 1 or 2", r->stype);
        if (r->stype != DENSE && !get_shape(r->reader, &r->data.shape, "the stored shape"))
            return false;
    }
    r->shape.ndim = get_i32(r->reader, "the shape");
    *none = !r->reader->failed && r->shape.ndim == (magic == MX_PARAMS_V3 ? -1 : 0);
    return *none || get_dims(r->reader, &r->shape, true, "the shape");
}

mx_array *mx_params_read_record(mx_reader *reader, bool *none)
{
    record r = {.reader = reader};
    *none = false;
    if (!get_head(&r, none) || *none)
        return NULL;
    return r.stype == DENSE ? read_dense(&r) : read_sparse(&r);
}
