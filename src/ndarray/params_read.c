/* Reading the records of a .params file: all four versions, dense and sparse.
 *
 *     V0:   u32 ndim, u32 sizes           | context, dtype, elements
 *     V1:   magic, shape                  | context, dtype, elements
 *     V2/3: magic, stype, [stored], shape | context, dtype, [aux types and shapes], elements, [aux elements]
 *
 * Nothing is allocated for elements before the file is known to hold them, so memory is bounded by the size of the file
 * (twice that for integers that are read into a wider type).  A sparse record becomes a sparse array.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ndarray/params.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "ndarray/convert.h"
#include "base/error.h"
#include "ndarray/dtype.h"
#include "ndarray/sparse.h"
#include "ndarray/wire.h"

#define MOST_EMPTY_ROWS ((int64_t)1 << 22) /* of a csr that has neither elements nor row starts in the file */

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
        mx_reader_fail(reader, "%s is %d, which is not an element type", what, (int)code);
    return reader->failed ? NULL : wire;
}

/* Context and element type; the context is where the array was saved from; it is ignored. */
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
    /* MXNet writes a stored shape of (0,) for matrices that came from SciPy; then the index array has the size. */
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
    return true;
}

/* A part as a separate array; index arrays become int64. */
static mx_array *read_part(record *r, const part *p, mx_dtype type, const char *what)
{
    const mx_dtype stored = (mx_dtype)p->wire->dtype;
    mx_array *x = mx_array_new(&p->shape, stored, mx_cpu(0));
    if (x && !mx_wire_read(r->reader, p->wire, false, mx_data(x), x->size, what)) {
        mx_release(x);
        return NULL;
    }
    if (!x || stored == type)
        return x;
    mx_array *wide = mx_array_new(&p->shape, type, mx_cpu(0));
    if (wide)
        mx_convert(mx_data(wide), type, mx_data(x), stored, x->size);
    mx_release(x);
    return wide;
}

/* MXNet writes a csr without elements with an empty indptr, too. */
static mx_array *read_starts(record *r)
{
    const bool empty = r->aux[0].size == 0 && r->shape.dim[0] >= 0;
    if (!empty)
        return read_part(r, &r->aux[0], MX_INT64, "the row starts");
    mx_shape_t shape = {.ndim = 1, .dim = {r->shape.dim[0] + 1}};
    if (shape.dim[0] > MOST_EMPTY_ROWS)
        return mx_reader_fail(r->reader, "an empty csr array has too many rows"), NULL;
    mx_array *x = mx_array_new(&shape, MX_INT64, mx_cpu(0));
    if (x && mx_array_fill(x, 0)) {
        mx_release(x);
        return NULL;
    }
    return x;
}

/* The parts are checked like a user's; problems are reported as file errors. */
static mx_array *assemble(record *r, mx_array *data, mx_array *indptr, mx_array *indices)
{
    MX_SCOPE;
    const bool clean = !mx_has_error();
    mx_dims dims = mx_dims_of_shape(&r->shape);
    mx_array *x = mx_retain(r->stype == CSR ? mx_csr(dims, data, indices, indptr) : mx_row_sparse(dims, data, indices));
    if (!x && clean && mx_error_code() != MX_ERR_MEMORY) {
        char why[256];
        snprintf(why, sizeof why, "%s", mx_error_message());
        mx_error_clear();
        mx_reader_fail(r->reader, "%s", why);
    }
    return x;
}

static mx_array *read_sparse(record *r)
{
    if (!get_sparse_head(r))
        return NULL;
    const bool csr = r->stype == CSR;
    mx_array *data = read_part(r, &r->data, (mx_dtype)r->data.wire->dtype, "the stored elements");
    mx_array *indptr = data && csr ? read_starts(r) : NULL;
    mx_array *indices = data && (!csr || indptr) ? read_part(r, &r->aux[csr], MX_INT64, "the indices") : NULL;
    mx_array *x = indices ? assemble(r, data, indptr, indices) : NULL;
    mx_release(data);
    mx_release(indptr);
    mx_release(indices);
    return x;
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
