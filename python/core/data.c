/* Data: sampling orders, arrays in shared memory, data sets in files.  SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "core.h"
#include "gluon/data/data.h"
#include "skin.h"

static uint64_t draw(void)
{
    const mx_rng rng = mx_rng_reserve(1);
    uint32_t words[4];
    mx_philox(rng.seed, rng.counter, words);
    return (uint64_t)words[0] << 32 | words[1];
}

static PyObject *random_seed(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyLong_FromUnsignedLong((unsigned long)(draw() & 0x7fffffff));
}

/* The order of a sampler as a list; NULL raises the library's error. */
static PyObject *order_of(mx_sampler *sampler)
{
    const int64_t *order = sampler ? mx_sampler_order(sampler, 0) : NULL;
    const Py_ssize_t n = sampler ? (Py_ssize_t)mx_sampler_length(sampler) : 0;
    PyObject *list = order ? PyList_New(n) : raise_error();
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *item = PyLong_FromLongLong(order[i]);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, item);
    }
    return list;
}

/* permutation(n): 0 ... n - 1 in a random order determined by the seed; a list. */
static PyObject *permutation(PyObject *self, PyObject *value)
{
    (void)self;
    const long long n = PyLong_AsLongLong(value);
    if (n == -1 && PyErr_Occurred())
        return NULL;
    if (n < 0)
        return PyErr_Format(PyExc_ValueError, "a sampler's length must not be negative, got %lld", n);
    if (n == 0)
        return PyList_New(0);
    MX_SCOPE;
    return order_of(mx_random_sampler(n, draw()));
}

/* intervals(length, interval, rollover): every interval-th number, then, with rollover, those that were skipped. */
static PyObject *intervals(PyObject *self, PyObject *args)
{
    long long n, interval;
    int rollover;
    (void)self;
    if (!PyArg_ParseTuple(args, "LLp:intervals", &n, &interval, &rollover))
        return NULL;
    MX_SCOPE;
    return order_of(mx_interval_sampler(n, interval, rollover));
}

/* split_order(length, shuffled, seed, epoch, parts, part, rest): the numbers of one part of an epoch */
static PyObject *split_order(PyObject *self, PyObject *args)
{
    static const char *const rests[] = {"pad", "discard", "keep"}; /* by mx_split_rest */
    long long n, epoch, parts, part;
    unsigned long long seed;
    int shuffled, rest = 2;
    const char *text;
    (void)self;
    if (!PyArg_ParseTuple(args, "LpKLLLs:split_order", &n, &shuffled, &seed, &epoch, &parts, &part, &text))
        return NULL;
    while (rest && strcmp(rests[rest], text))
        rest--;
    MX_SCOPE;
    mx_sampler *whole = shuffled ? mx_random_sampler(n, seed) : mx_sequential_sampler(n);
    mx_sampler *split = whole ? mx_split_sampler(whole, parts, part, (mx_split_rest)rest) : NULL;
    const int64_t *order = split ? mx_sampler_order(split, epoch) : NULL;
    const int64_t count = order ? mx_sampler_length(split) : 0;
    PyObject *list = order ? PyList_New((Py_ssize_t)count) : raise_error();
    for (int64_t i = 0; list && i < count; i++)
        PyList_SET_ITEM(list, (Py_ssize_t)i, PyLong_FromLongLong(order[i]));
    return list;
}

/* batch_count(examples, batch size, last batch) */
static PyObject *batch_count(PyObject *self, PyObject *args)
{
    static const char *const kinds[] = {"keep", "discard", "rollover"}; /* by mx_last_batch */
    long long examples, size;
    const char *kind;
    int last = 2;
    (void)self;
    if (!PyArg_ParseTuple(args, "LLs:batch_count", &examples, &size, &kind))
        return NULL;
    while (last && strcmp(kinds[last], kind))
        last--;
    const int64_t n = mx_batch_count(examples, size, (mx_last_batch)last);
    return n < 0 ? raise_error() : PyLong_FromLongLong(n);
}

/* shard(length, shards, index): (start, count) */
static PyObject *shard(PyObject *self, PyObject *args)
{
    long long length, shards, index;
    int64_t count;
    (void)self;
    if (!PyArg_ParseTuple(args, "LLL:shard", &length, &shards, &index))
        return NULL;
    const int64_t start = mx_shard_start(length, shards, index, &count);
    return start < 0 ? raise_error() : Py_BuildValue("LL", (long long)start, (long long)count);
}

/* ---- arrays in shared memory ---------------------------------------------------------------------------------
 *
 * Arrays lie one behind the other in a file without a name, each at a multiple of ALIGNMENT:
 *
 *     store_arrays([x, y]) -> (descriptor, [(offset, shape, type), ...]) -- socket --> map_arrays(descriptor, ...)
 */

#define ALIGNMENT 64
#ifdef MAP_POPULATE
#define WHOLE MAP_POPULATE /* one call instead of a fault per page */
#else
#define WHOLE 0
#endif

static int64_t aligned(int64_t offset) { return (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static int nameless_file(void)
{
#ifdef MFD_CLOEXEC
    const int descriptor = memfd_create("mxnet-batch", MFD_CLOEXEC);
    if (descriptor >= 0)
        return descriptor;
#endif
    FILE *file = tmpfile();
    const int copy = file ? fcntl(fileno(file), F_DUPFD_CLOEXEC, 0) : -1;
    if (file)
        fclose(file);
    return copy;
}

/* Copies the arrays into a file; its descriptor, -1 with an exception. */
static int write_arrays(mx_arrays arrays, int64_t bytes)
{
    const int file = nameless_file();
    char *memory = MAP_FAILED;
    if (file >= 0 && !ftruncate(file, bytes))
        memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED | WHOLE, file, 0);
    bool good = memory != MAP_FAILED;
    if (!good)
        PyErr_SetFromErrno(PyExc_OSError);
    int64_t at = 0;
    PyThreadState *state = let_go(bytes > LONG_WORK);
    for (int64_t i = 0; good && i < arrays.n; at = aligned(at + (int64_t)mx_bytes(arrays.v[i])), i++)
        good = !arrays.v[i]->size || !mx_array_read(arrays.v[i], memory + at, mx_bytes(arrays.v[i]));
    take_back(state);
    if (memory != MAP_FAILED)
        munmap(memory, (size_t)bytes);
    if (good)
        return file;
    raise_error();
    if (file >= 0)
        close(file);
    return -1;
}

/* store_arrays(list): (descriptor, [(offset, shape, type number), ...]) */
static PyObject *store_arrays(PyObject *self, PyObject *source)
{
    mx_array **items;
    (void)self;
    mx_arrays arrays = nd_list(source, "store_arrays", &items);
    PyObject *layout = arrays.n < 0 ? NULL : PyList_New((Py_ssize_t)arrays.n);
    int64_t at = 0;
    for (int64_t i = 0; layout && i < arrays.n; i++) {
        mx_array *x = arrays.v[i];
        PyObject *row = Py_BuildValue("LNi", (long long)at, dims_to(x->shape, x->ndim), (int)x->dtype);
        if (!row)
            Py_CLEAR(layout);
        else
            PyList_SET_ITEM(layout, (Py_ssize_t)i, row);
        at = aligned(at + (int64_t)mx_bytes(x));
    }
    const int file = layout ? write_arrays(arrays, at ? at : 1) : -1;
    if (arrays.n >= 0)
        PyMem_Free(items);
    if (file < 0) {
        Py_XDECREF(layout);
        return NULL;
    }
    return Py_BuildValue("iN", file, layout);
}

/* A mapped file; the last array over it unmaps it. */
typedef struct mapping {
    void *memory;
    size_t bytes;
    atomic_long users;
} mapping;

static void unmap(void *owner)
{
    mapping *m = owner;
    if (atomic_fetch_sub(&m->users, 1) > 1)
        return;
    munmap(m->memory, m->bytes);
    PyMem_RawFree(m);
}

static mapping *map_file(int descriptor)
{
    struct stat status;
    mapping *m = PyMem_RawMalloc(sizeof *m);
    if (!m)
        return PyErr_NoMemory(), NULL;
    *m = (mapping){.memory = MAP_FAILED};
    if (!fstat(descriptor, &status) && status.st_size > 0) {
        m->bytes = (size_t)status.st_size;
        m->memory = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | WHOLE, descriptor, 0);
    }
    atomic_init(&m->users, 1);
    if (m->memory != MAP_FAILED)
        return m;
    PyErr_SetFromErrno(PyExc_OSError);
    PyMem_RawFree(m);
    return NULL;
}

/* One array of the file; NULL with an exception. */
static PyObject *mapped_array(mapping *m, PyObject *row)
{
    long long offset;
    PyObject *sizes;
    int type;
    mx_dims dims;
    if (!PyArg_ParseTuple(row, "LOi:map_arrays", &offset, &sizes, &type) ||
        dims_from(sizes, &dims, "map_arrays", "shape"))
        return NULL;
    const mx_shape_t shape = mx_shape_of_dims(&dims);
    const int64_t size = mx_shape_size(&shape);
    const int64_t width = type >= 0 && type < MX_DTYPE_END ? (int64_t)mx_dtype_size((mx_dtype)type) : 0;
    if (size < 0 || !width || offset < 0 || offset % ALIGNMENT || (size_t)offset > m->bytes ||
        (uint64_t)size > (m->bytes - (size_t)offset) / (uint64_t)width)
        return mx_error_clear(), PyErr_Format(PyExc_ValueError, "map_arrays: an array is outside the file");
    atomic_fetch_add(&m->users, 1);
    mx_array *x = mx_array_adopt(&shape, (mx_dtype)type, (char *)m->memory + offset, unmap, m);
    if (!x) {
        unmap(m);
        return raise_error();
    }
    PyObject *result = nd_wrap(x);
    mx_release(x);
    return result;
}

/* map_arrays(descriptor, layout): the arrays, without a copy; the descriptor may be closed then. */
static PyObject *map_arrays(PyObject *self, PyObject *args)
{
    int descriptor;
    PyObject *layout;
    (void)self;
    if (!PyArg_ParseTuple(args, "iO!:map_arrays", &descriptor, &PyList_Type, &layout))
        return NULL;
    mapping *m = map_file(descriptor);
    PyObject *list = m ? PyList_New(PyList_GET_SIZE(layout)) : NULL;
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(layout); i++) {
        PyObject *array = mapped_array(m, PyList_GET_ITEM(layout, i));
        if (!array)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, array);
    }
    if (m)
        unmap(m);
    return list;
}

/* ---- batches --------------------------------------------------------------------------------------------------- */

/* pad_batch(arrays, value, axis or None, round_to, dtype or None, with lengths): the batch, or (batch, lengths) */
static PyObject *pad_batch(PyObject *self, PyObject *args)
{
    PyObject *source, *axis, *type;
    double value;
    long long round_to;
    mx_dtype dtype = MX_DTYPE_NONE;
    mx_array **items, *lengths = NULL;
    int with_lengths;
    (void)self;
    if (!PyArg_ParseTuple(args, "OdOLOp:pad_batch", &source, &value, &axis, &round_to, &type, &with_lengths) ||
        (type != Py_None && dtype_from(type, &dtype)))
        return NULL;
    const int64_t along = axis == Py_None ? MX_NONE_INT : PyLong_AsLongLong(axis);
    if (PyErr_Occurred())
        return NULL;
    mx_arrays arrays = nd_list(source, "Pad", &items);
    if (arrays.n < 0)
        return NULL;
    MX_SCOPE;
    mx_array *batch = mx_pad_batch(arrays, .value = value, .axis = along, .round_to = round_to, .dtype = dtype,
                                   .lengths = with_lengths ? &lengths : NULL);
    PyMem_Free(items);
    if (!batch)
        return raise_error();
    return with_lengths ? Py_BuildValue("NN", nd_wrap(batch), nd_wrap(lengths)) : nd_wrap(batch);
}

/* ---- files of data sets --------------------------------------------------------------------------------------- */

/* The two arrays of a raw data set: images uint8 (N, H, W, C), labels int32 (N). */
static PyObject *both_arrays(mx_dataset *dataset)
{
    return dataset ? nd_wrap_all((mx_arrays){dataset->arrays, dataset->n_arrays}) : raise_error();
}

/* load_mnist(name, root or None, train) */
static PyObject *load_mnist(PyObject *self, PyObject *args)
{
    const char *name, *root;
    int train;
    (void)self;
    if (!PyArg_ParseTuple(args, "szp:load_mnist", &name, &root, &train))
        return NULL;
    MX_SCOPE;
    const struct mx_mnist_args options = {.train = train, .raw = true, .root = root};
    mx_dataset *(*const make)(const struct mx_mnist_args *) =
        !strcmp(name, "mnist") ? mx_mnist_make : mx_fashion_mnist_make;
    PyThreadState *state = let_go(true);
    mx_dataset *dataset = make(&options);
    take_back(state);
    return both_arrays(dataset);
}

/* load_cifar(classes, root or None, train, fine) */
static PyObject *load_cifar(PyObject *self, PyObject *args)
{
    const char *root;
    int classes, train, fine;
    (void)self;
    if (!PyArg_ParseTuple(args, "izpp:load_cifar", &classes, &root, &train, &fine))
        return NULL;
    MX_SCOPE;
    const struct mx_cifar_args options = {.train = train, .raw = true, .fine_label = fine, .root = root};
    PyThreadState *state = let_go(true);
    mx_dataset *dataset = classes == 100 ? mx_cifar100_make(&options) : mx_cifar10_make(&options);
    take_back(state);
    return both_arrays(dataset);
}

/* load_idx(path): the array in an idx file. */
static PyObject *load_idx(PyObject *self, PyObject *source)
{
    PyObject *path;
    (void)self;
    if (!PyUnicode_FSConverter(source, &path))
        return NULL;
    MX_SCOPE;
    mx_array *x = mx_load_idx(PyBytes_AS_STRING(path));
    Py_DECREF(path);
    return x ? nd_wrap(x) : raise_error();
}

/* load_csv(path, dtype): an array (lines, columns). */
static PyObject *load_csv(PyObject *self, PyObject *args)
{
    PyObject *path, *type;
    mx_dtype dtype;
    (void)self;
    if (!PyArg_ParseTuple(args, "O&O:load_csv", PyUnicode_FSConverter, &path, &type))
        return NULL;
    MX_SCOPE;
    mx_array *x = NULL;
    if (!dtype_from(type, &dtype))
        x = mx_load_csv(PyBytes_AS_STRING(path), dtype == MX_DTYPE_NONE ? MX_FLOAT32 : dtype);
    Py_DECREF(path);
    return x ? nd_wrap(x) : raise_error();
}

/* ---- image files ------------------------------------------------------------------------------------------------ */

typedef PyObject *(*describe_fn)(const mx_dataset *dataset, int64_t i); /* NULL without an exception: past the end */

static PyObject *path_to(const char *text) { return text ? PyUnicode_DecodeFSDefault(text) : NULL; }

static PyObject *described(const mx_dataset *dataset, describe_fn describe)
{
    PyObject *list = PyList_New(0), *item;
    for (int64_t i = 0; list && (item = describe(dataset, i)); i++) {
        if (PyList_Append(list, item))
            Py_CLEAR(list);
        Py_DECREF(item);
    }
    if (PyErr_Occurred())
        Py_CLEAR(list);
    return list;
}

static PyObject *class_at(const mx_dataset *dataset, int64_t i)
{
    return path_to(mx_image_folder_class(dataset, (int)i));
}
static PyObject *skipped_at(const mx_dataset *dataset, int64_t i)
{
    return path_to(mx_image_folder_skipped(dataset, i));
}
static PyObject *file_at(const mx_dataset *dataset, int64_t i)
{
    if (i >= mx_dataset_length(dataset))
        return NULL;
    return Py_BuildValue("Nl", path_to(mx_image_path(dataset, i)), (long)*mx_image_labels(dataset, i, NULL));
}

/* (key, (labels), path) */
static PyObject *line_at(const mx_dataset *dataset, int64_t i)
{
    int64_t n;
    if (i >= mx_dataset_length(dataset))
        return NULL;
    const float *labels = mx_image_labels(dataset, i, &n);
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (Py_ssize_t k = 0; tuple && k < n; k++)
        PyTuple_SET_ITEM(tuple, k, PyFloat_FromDouble(labels[k]));
    return tuple ? Py_BuildValue("LNN", (long long)mx_image_key(dataset, i), tuple, path_to(mx_image_path(dataset, i)))
                 : NULL;
}

/* image_folder(root): (names of classes, [(path, label)], [what was left out and why]) */
static PyObject *image_folder(PyObject *self, PyObject *source)
{
    PyObject *path;
    (void)self;
    if (!PyUnicode_FSConverter(source, &path))
        return NULL;
    MX_SCOPE;
    PyThreadState *state = let_go(true);
    mx_dataset *dataset = mx_image_folder(PyBytes_AS_STRING(path));
    take_back(state);
    Py_DECREF(path);
    if (!dataset)
        return raise_error();
    return Py_BuildValue("NNN", described(dataset, class_at), described(dataset, file_at),
                         described(dataset, skipped_at));
}

/* image_list(path): [(key, (labels), path)] */
static PyObject *image_list(PyObject *self, PyObject *source)
{
    PyObject *path;
    (void)self;
    if (!PyUnicode_FSConverter(source, &path))
        return NULL;
    MX_SCOPE;
    PyThreadState *state = let_go(true);
    mx_dataset *dataset = mx_image_list(PyBytes_AS_STRING(path), .root = "");
    take_back(state);
    Py_DECREF(path);
    return dataset ? described(dataset, line_at) : raise_error();
}

/* ---- transforms --------------------------------------------------------------------------------------------------- */

/* takes_batches(block): whether this transform gives the same result on a batch as on each example alone. */
static PyObject *takes_batches(PyObject *self, PyObject *object)
{
    (void)self;
    return PyBool_FromLong(PyObject_TypeCheck(object, &block_type) && block_in_c(object) &&
                           mx_takes_batches(block_of(object)));
}

/* runs_in_c(block): whether no Python code runs when the block is called. */
static PyObject *runs_in_c(PyObject *self, PyObject *object)
{
    (void)self;
    return PyBool_FromLong(PyObject_TypeCheck(object, &block_type) && block_in_c(object));
}

static PyMethodDef functions[] = {
    {"permutation", permutation, METH_O, "0 ... n - 1 in a random order."},
    {"intervals", intervals, METH_VARARGS, "intervals(length, interval, rollover): the order of such a sampler."},
    {"split_order", split_order, METH_VARARGS,
     "split_order(length, shuffled, seed, epoch, parts, part, rest): the numbers of one part of an epoch."},
    {"batch_count", batch_count, METH_VARARGS, "batch_count(examples, batch_size, last_batch)"},
    {"shard", shard, METH_VARARGS, "shard(length, shards, index): (start, count) of a part."},
    {"pad_batch", pad_batch, METH_VARARGS, "(batch, lengths) of arrays padded to the largest."},
    {"image_folder", image_folder, METH_O, "(classes, [(path, label)], [what was left out]) of folders of images."},
    {"image_list", image_list, METH_O, "[(key, labels, path)] of a .lst file."},
    {"random_seed", random_seed, METH_NOARGS, "A seed derived from the current one."},
    {"store_arrays", store_arrays, METH_O, "Arrays in an anonymous file."},
    {"map_arrays", map_arrays, METH_VARARGS, "The arrays of such a file."},
    {"load_mnist", load_mnist, METH_VARARGS, "Images and labels of MNIST or FashionMNIST."},
    {"load_cifar", load_cifar, METH_VARARGS, "Images and labels of CIFAR10 or CIFAR100."},
    {"load_idx", load_idx, METH_O, "The array in an idx file."},
    {"load_csv", load_csv, METH_VARARGS, "The numbers in a text file."},
    {"runs_in_c", runs_in_c, METH_O, "Whether no Python code runs when a block is called."},
    {"takes_batches", takes_batches, METH_O, "Whether a transform can run on batches."},
    {NULL, NULL, 0, NULL},
};

int add_data(PyObject *module) { return PyModule_AddFunctions(module, functions); }
