/* Attributes and constant inputs of a node, for the functions of rows.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "gluon/onnx/read.h"
#include "ndarray/array.h"

/* ---- attributes ------------------------------------------------------------------------------------------------ */

static const mx_onnx_attr *find_attr(const mx_onnx_in *n, const char *name)
{
    for (int i = 0; i < n->n_attrs; i++)
        if (!strcmp(n->attrs[i].name, name))
            return &n->attrs[i];
    return NULL;
}

/* The attribute, or the one of the calling node that it refers to. */
static mx_proto open_attr(const mx_onnx_in *n, const char *name)
{
    const mx_onnx_attr *attr = find_attr(n, name);
    const mx_onnx_frame *frame = n->reader->frame;
    while (frame && !frame->call)
        frame = frame->outer;
    mx_proto m = mx_proto_of(attr ? attr->bytes : NULL, attr ? attr->size : 0);
    for (mx_proto_field f; frame && mx_proto_next(&m, &f);)
        if (f.number == 21 && f.kind == MX_PROTO_BYTES) {
            const char *refers = mx_onnx_field_text(&f);
            attr = refers ? find_attr(frame->call, refers) : NULL;
            break;
        }
    return mx_proto_of(attr ? attr->bytes : NULL, attr ? attr->size : 0);
}

/* The field of an attribute's value; false: missing. */
static bool find_field(const mx_onnx_in *n, const char *name, uint32_t number, mx_proto_kind kind,
                       mx_proto_field *found)
{
    mx_proto m = open_attr(n, name);
    bool there = false;
    for (mx_proto_field f; mx_proto_next(&m, &f);)
        if (f.number == number && f.kind == kind) {
            *found = f;
            there = true;
        }
    return there;
}

bool mx_onnx_has(const mx_onnx_in *n, const char *attr)
{
    const mx_proto m = open_attr(n, attr);
    return m.at < m.end;
}

int64_t mx_onnx_int(const mx_onnx_in *n, const char *attr, int64_t fallback)
{
    mx_proto_field f;
    return find_field(n, attr, 3, MX_PROTO_VARINT, &f) ? (int64_t)f.value : fallback;
}

static double float_of(uint64_t bits)
{
    const uint32_t word = (uint32_t)bits;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

double mx_onnx_float(const mx_onnx_in *n, const char *attr, double fallback)
{
    mx_proto_field f;
    return find_field(n, attr, 2, MX_PROTO_FIXED32, &f) ? float_of(f.value) : fallback;
}

const char *mx_onnx_text(const mx_onnx_in *n, const char *attr, char *buffer, const char *fallback)
{
    mx_proto_field f = {0};
    const bool there = find_field(n, attr, 4, MX_PROTO_BYTES, &f);
    snprintf(buffer, 64, "%.*s", there ? (int)(f.size < 63 ? f.size : 63) : 63,
             there ? (const char *)f.bytes : fallback);
    return buffer;
}

/* Calls `take` for every number of a list. */
static bool each(const mx_onnx_in *n, const char *attr, uint32_t field, mx_proto_kind kind,
                 bool (*take)(void *to, uint64_t value), void *to)
{
    mx_proto m = open_attr(n, attr);
    uint64_t value;
    bool ok = true;
    for (mx_proto_field f; ok && mx_proto_next(&m, &f);) {
        if (f.number != field)
            continue;
        mx_proto list = mx_proto_inside(&f);
        if (f.kind == kind)
            ok = take(to, f.value);
        while (ok && mx_proto_number(&list, kind, &value))
            ok = take(to, value);
    }
    return ok || !mx_onnx_fail(n, MX_ERR_FILE, "the attribute %s has more than %d numbers", attr, MX_MAX_TUPLE);
}

static bool take_int(void *to, uint64_t value)
{
    mx_dims *dims = to;
    return dims->n < MX_MAX_TUPLE && (dims->d[dims->n++] = (int64_t)value, true);
}

static bool take_float(void *to, uint64_t value)
{
    mx_floats *floats = to;
    return floats->n < MX_MAX_TUPLE && (floats->d[floats->n++] = float_of(value), true);
}

bool mx_onnx_ints(const mx_onnx_in *n, const char *attr, mx_dims *dims)
{
    *dims = (mx_dims){.n = mx_onnx_has(n, attr) ? 0 : -1};
    return dims->n < 0 || each(n, attr, 8, MX_PROTO_VARINT, take_int, dims);
}

bool mx_onnx_floats(const mx_onnx_in *n, const char *attr, mx_floats *floats)
{
    *floats = (mx_floats){.n = mx_onnx_has(n, attr) ? 0 : -1};
    return floats->n < 0 || each(n, attr, 7, MX_PROTO_FIXED32, take_float, floats);
}

static bool count_one(void *to, uint64_t value)
{
    (void)value;
    return ++*(int64_t *)to;
}

/* Where the next number goes. */
typedef struct filling {
    int64_t *ints;
    float *floats;
} filling;

static bool fill_one(void *to, uint64_t value)
{
    filling *at = to;
    if (at->floats)
        *at->floats++ = (float)float_of(value);
    else
        *at->ints++ = (int64_t)value;
    return true;
}

mx_array *mx_onnx_list(const mx_onnx_in *n, const char *attr, bool floats)
{
    const uint32_t field = floats ? 7 : 8;
    const mx_proto_kind kind = floats ? MX_PROTO_FIXED32 : MX_PROTO_VARINT;
    mx_shape_t shape = {.ndim = 1};
    if (!mx_onnx_has(n, attr) || !each(n, attr, field, kind, count_one, &shape.dim[0]))
        return NULL;
    mx_array *list = mx_scope_add(mx_array_new(&shape, floats ? MX_FLOAT32 : MX_INT64, mx_cpu(0)));
    void *data = list && shape.dim[0] ? mx_data(list) : NULL;
    filling at = {.ints = floats ? NULL : data, .floats = floats ? data : NULL};
    if (data)
        each(n, attr, field, kind, fill_one, &at);
    return list;
}

int64_t mx_onnx_texts(const mx_onnx_in *n, const char *attr, void (*take)(void *to, const char *text, int64_t size),
                      void *to)
{
    mx_proto m = open_attr(n, attr);
    int64_t count = 0;
    for (mx_proto_field f; mx_proto_next(&m, &f);)
        if (f.number == 9 && f.kind == MX_PROTO_BYTES) {
            take(to, (const char *)f.bytes, f.size);
            count++;
        }
    return count;
}

void mx_onnx_strings(const mx_onnx_in *n, const char *attr, char *letters, size_t room)
{
    mx_proto m = open_attr(n, attr);
    size_t used = 0;
    for (mx_proto_field f; mx_proto_next(&m, &f);)
        if (f.number == 9 && f.kind == MX_PROTO_BYTES && used + 1 < room)
            letters[used++] = f.size ? (char)f.bytes[0] : '?';
    letters[used] = 0;
}

mx_array *mx_onnx_tensor(const mx_onnx_in *n, const char *attr)
{
    mx_proto_field f;
    char who[600];
    snprintf(who, sizeof who, "%.250s: node '%.200s' (%.60s)", n->reader->path, n->name, n->op);
    return find_field(n, attr, 5, MX_PROTO_BYTES, &f)
               ? mx_onnx_read_tensor(n->reader, (mx_onnx_part){f.bytes, f.size}, who, n->out_type)
               : NULL;
}

mx_code mx_onnx_subgraph(const mx_onnx_in *n, const char *attr, mx_arrays in, int n_out, mx_array **out)
{
    mx_proto_field f;
    if (!find_field(n, attr, 6, MX_PROTO_BYTES, &f))
        return mx_onnx_fail(n, MX_ERR_FILE, "the graph %s is missing", attr);
    if (n->reader->depth >= 32)
        return mx_onnx_fail(n, MX_ERR_FILE, "more than 32 graphs are inside each other");
    return mx_onnx_run_graph(n->reader, (mx_onnx_part){f.bytes, f.size}, in, n_out, out);
}

/* ---- constant inputs --------------------------------------------------------------------------------------------- */

static bool constant(const mx_onnx_in *n, int i)
{
    return n->value[i] ||
           !mx_onnx_fail(n, MX_ERR_UNSUPPORTED,
                         "its input %d ('%s') is computed from the network's inputs; it must be constant", i,
                         n->in_name[i]);
}

bool mx_onnx_dims(const mx_onnx_in *n, int i, mx_dims *dims)
{
    double numbers[MX_MAX_TUPLE];
    *dims = MX_NO_DIMS;
    if (!mx_onnx_given(n, i))
        return true;
    if (!constant(n, i))
        return false;
    mx_array *x = n->value[i];
    if (x->size > MX_MAX_TUPLE)
        return !mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "its input %d has %lld numbers, at most %d are supported", i,
                             (long long)x->size, MX_MAX_TUPLE);
    dims->n = (int32_t)x->size;
    if (x->dtype == MX_INT64) /* exact: placeholders and INT64_MAX */
        return !mx_array_read(x, dims->d, (size_t)x->size * sizeof(int64_t));
    if (mx_array_read_doubles(x, numbers, x->size))
        return false;
    for (int k = 0; k < dims->n; k++) {
        if (!(numbers[k] > -0x1p63 && numbers[k] < 0x1p63))
            return !mx_onnx_fail(n, MX_ERR_FILE, "its input %d has the number %g, wanted integers", i, numbers[k]);
        dims->d[k] = (int64_t)numbers[k];
    }
    return true;
}

bool mx_onnx_number(const mx_onnx_in *n, int i, double fallback, double *number)
{
    *number = fallback;
    if (!mx_onnx_given(n, i))
        return true;
    if (!constant(n, i))
        return false;
    if (n->value[i]->size != 1)
        return !mx_onnx_fail(n, MX_ERR_FILE, "its input %d has %lld elements, wanted one", i,
                             (long long)n->value[i]->size);
    return !mx_array_read_doubles(n->value[i], number, 1);
}

bool mx_onnx_axis(const mx_onnx_in *n, int64_t *axis, int rank)
{
    if (*axis < -rank || *axis >= rank)
        return !mx_onnx_fail(n, MX_ERR_FILE, "axis %lld, but its input has %d axes", (long long)*axis, rank);
    *axis += *axis < 0 ? rank : 0;
    return true;
}

int mx_onnx_rank(const mx_onnx_in *n, int i)
{
    if (!mx_onnx_given(n, i))
        return mx_onnx_fail(n, MX_ERR_FILE, "its input %d is missing", i), -1;
    if (n->in[i]->ndim < 0)
        mx_onnx_fail(n, MX_ERR_SHAPE, "the number of axes of its input %d is not known; give the shapes of the inputs",
                     i);
    return n->in[i]->ndim;
}

bool mx_onnx_shape(const mx_onnx_in *n, int i, mx_dims *shape)
{
    const int rank = mx_onnx_rank(n, i);
    *shape = (mx_dims){.n = rank};
    for (int k = 0; k < rank; k++) {
        shape->d[k] = n->in[i]->shape[k];
        if (shape->d[k] < 0)
            return !mx_onnx_fail(n, MX_ERR_SHAPE,
                                 "the size of axis %d of its input %d is not known; give the shapes of the inputs", k,
                                 i);
    }
    return rank >= 0;
}

int64_t mx_onnx_placeholder(const mx_onnx_in *n, const mx_array *x, int axis)
{
    char key[64];
    const mx_gentry entry = mx_entry_of(x);
    snprintf(key, sizeof key, "%llu.%u.%d", (unsigned long long)entry.node->sequence, entry.output, axis);
    mx_dict_entry *found = mx_dict_place(&n->reader->sizes, key);
    if (found && !found->number) {
        found->number = n->reader->sizes.length;
        mx_onnx_size size = {mx_retain((mx_array *)(uintptr_t)x), axis};
        if (!mx_vec_push(&n->reader->size_of, size))
            return mx_release(size.x), -1;
    }
    return found ? -(INT64_C(1) << 40) - found->number : -1;
}

/* Zeros along axis k of `rank`, as many as the placeholder stands for. */
static mx_array *zeros_along(const mx_onnx_in *n, int64_t placeholder, int k, int rank, mx_dtype dtype)
{
    const int64_t number = -(INT64_C(1) << 40) - placeholder - 1;
    if (number < 0 || number >= n->reader->size_of.length)
        return mx_onnx_fail(n, MX_ERR_SHAPE,
                            "a size is computed from one that is not known; give the shapes of the inputs"),
               NULL;
    const mx_onnx_size *size = &n->reader->size_of.items[number];
    mx_array *x = size->x;
    mx_dims shape = {.n = rank};
    for (int i = 0; x && i < size->x->ndim; i++)
        x = i == size->axis ? x : mx_slice_axis(x, .axis = i, .begin = 0, .end = 1);
    for (int i = 0; i < rank; i++)
        shape.d[i] = i == k ? -1 : 1;
    return mx_onnx_cast(mx_zeros_like(mx_reshape(x, .shape = shape)), dtype);
}

mx_array *mx_onnx_zeros(const mx_onnx_in *n, const mx_dims *shape, mx_dtype dtype)
{
    mx_shape_t known = mx_shape_of_dims(shape);
    double elements = 1; /* a small file must not need much memory */
    for (int i = 0; i < known.ndim; i++)
        elements *= known.dim[i] > 0 ? (double)known.dim[i] : 1;
    if (elements > (double)(INT64_C(1) << 28))
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "a constant of %.0f elements is too large", elements), NULL;
    for (int i = 0; i < known.ndim; i++) {
        if (known.dim[i] < 0 && !mx_onnx_is_unknown(known.dim[i]))
            return mx_onnx_fail(n, MX_ERR_FILE, "the shape has the size %lld", (long long)known.dim[i]), NULL;
        known.dim[i] = known.dim[i] < 0 ? 1 : known.dim[i];
    }
    mx_array *y = known.ndim < 0 ? NULL : mx_scope_add(mx_array_new(&known, dtype, mx_cpu(0)));
    if (!y || mx_array_fill(y, 0))
        return NULL;
    for (int i = 0; y && i < shape->n; i++)
        y = mx_onnx_is_unknown(shape->d[i]) ? mx_add(y, zeros_along(n, shape->d[i], i, shape->n, dtype)) : y;
    return y;
}

const mx_onnx_type *mx_onnx_in_type(const mx_onnx_in *n, int i)
{
    return n->in_type[i] ? mx_onnx_type_of(n->in_type[i]) : mx_onnx_type_for((mx_dtype)n->in[i]->dtype);
}

mx_array *mx_onnx_wrapped(mx_array *x, const mx_onnx_type *type)
{
    double low, high;
    if (!x || x == MX_NONE || !type)
        return NULL;
    if (!mx_onnx_range(type, &low, &high) || type->bits > 32 || (int)type->dtype == MX_INT32)
        return mx_onnx_cast(x, type->held);
    x = mx_onnx_cast(x, MX_INT64);
    x = low < 0 ? mx_minus_scalar(x, .scalar = low) : x;
    x = mx_mod_scalar(x, .scalar = high - low + 1); /* has the divisor's sign */
    x = low < 0 ? mx_plus_scalar(x, .scalar = low) : x;
    return mx_onnx_cast(x, type->held);
}

/* A small file must not need much memory. */
mx_array *mx_onnx_count(const mx_onnx_in *n, int64_t size, mx_dtype dtype)
{
    if (size < 0 || size > 1 << 26)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "an axis of %lld elements is too long", (long long)size), NULL;
    return mx_arange(.start = 0, .stop = (double)size, .dtype = dtype);
}

/* ---- small arrays ------------------------------------------------------------------------------------------------- */

mx_array *mx_onnx_cast(mx_array *x, mx_dtype dtype)
{
    return !x || x == MX_NONE || x->dtype == (int)dtype ? x : mx_cast(x, .dtype = dtype);
}

mx_array *mx_onnx_constant(mx_dims shape, mx_dtype dtype, const double *numbers)
{
    mx_array *x = mx_array_from(shape, MX_FLOAT64, numbers);
    return mx_onnx_cast(x, dtype);
}

mx_array *mx_onnx_scalar(double number, mx_dtype dtype) { return mx_onnx_constant(MX_SCALAR_DIMS, dtype, &number); }

mx_array *mx_onnx_int64s(const mx_dims *dims) { return mx_array_from(MX_DIMS(dims->n), MX_INT64, dims->d); }
