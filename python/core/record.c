/* Record files: readers and writers of gluon/recordio.h as Python objects, packing and unpacking of image records.
 *
 * Reading is by position (pread), so a reader that was inherited by a forked process reads on by itself.  A writer
 * belongs to the process that opened it; mxnet/recordio.py ensures that.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "core.h"
#include "gluon/recordio.h"
#include "skin.h"

typedef struct record_object {
    PyObject_HEAD void *file; /* retained: mx_record_reader or mx_record_writer; NULL after close() */
    pid_t owner;              /* process that opened it */
} record_object;

static PyTypeObject reader_type, writer_type;

/* Freeing a writer removes its unfinished files, but not in a forked process, which does not own them. */
static void record_dealloc(PyObject *object)
{
    record_object *self = (record_object *)object;
    if (Py_TYPE(object) != &writer_type || self->owner == getpid())
        mx_release(self->file);
    Py_TYPE(object)->tp_free(object);
}

static void *file_of(PyObject *object)
{
    void *file = ((record_object *)object)->file;
    if (!file)
        PyErr_SetString(PyExc_ValueError, "the record file is closed");
    return file;
}

/* The bytes of an array of bytes; NULL with an exception if there is none. */
static PyObject *bytes_of(mx_array *record)
{
    return record ? PyBytes_FromStringAndSize(record->size ? mx_array_data(record) : "", (Py_ssize_t)record->size)
                  : raise_error();
}

static PyObject *wrap_file(PyTypeObject *type, void *file)
{
    record_object *self = file ? (record_object *)type->tp_alloc(type, 0) : NULL;
    if (!file)
        return raise_error();
    if (self) {
        self->file = mx_retain(file);
        self->owner = getpid();
    }
    return (PyObject *)self;
}

/* ---- reading -------------------------------------------------------------------------------------------------- */

static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *path;
    if (keywords || !PyArg_ParseTuple(args, "O&:RecordReader", PyUnicode_FSConverter, &path))
        return NULL;
    MX_SCOPE;
    PyObject *self = wrap_file(type, mx_record_reader_open(PyBytes_AS_STRING(path)));
    Py_DECREF(path);
    return self;
}

static PyObject *reader_read(PyObject *object, PyObject *unused)
{
    mx_record_reader *file = file_of(object);
    (void)unused;
    if (!file)
        return NULL;
    MX_SCOPE;
    mx_array *record = mx_record_read(file);
    if (!record && !mx_has_error())
        Py_RETURN_NONE;
    return bytes_of(record);
}

/* read_at(position): one call, so that several threads may share one reader. */
static PyObject *reader_read_at(PyObject *object, PyObject *position)
{
    mx_record_reader *file = file_of(object);
    const long long at = PyLong_AsLongLong(position);
    if (!file || (at == -1 && PyErr_Occurred()))
        return NULL;
    MX_SCOPE;
    return bytes_of(mx_record_read_at(file, at));
}

/* positions(): where every record begins; the reader is rewound. */
static PyObject *reader_positions(PyObject *object, PyObject *unused)
{
    mx_record_reader *file = file_of(object);
    PyObject *list = file && !mx_record_reader_seek(file, 0) ? PyList_New(0) : NULL;
    (void)unused;
    for (int64_t at = 0; list && mx_record_skip(file); at = mx_record_reader_position(file)) {
        PyObject *item = PyLong_FromLongLong(at);
        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    if (!list || mx_has_error()) {
        Py_XDECREF(list);
        return raise_error();
    }
    mx_record_reader_seek(file, 0);
    return list;
}

static PyObject *reader_seek(PyObject *object, PyObject *position)
{
    mx_record_reader *file = file_of(object);
    const long long at = PyLong_AsLongLong(position);
    if (!file || (at == -1 && PyErr_Occurred()))
        return NULL;
    return raise_if(mx_record_reader_seek(file, at));
}

static PyObject *reader_tell(PyObject *object, PyObject *unused)
{
    mx_record_reader *file = file_of(object);
    (void)unused;
    return file ? PyLong_FromLongLong(mx_record_reader_position(file)) : NULL;
}

static PyObject *reader_close(PyObject *object, PyObject *unused)
{
    record_object *self = (record_object *)object;
    (void)unused;
    if (self->file)
        mx_record_reader_close(self->file);
    mx_release(self->file);
    self->file = NULL;
    Py_RETURN_NONE;
}

static PyMethodDef reader_methods[] = {
    {"read", reader_read, METH_NOARGS, "The next record; None at the end."},
    {"seek", reader_seek, METH_O, "Seeks to the record at a byte position of the file."},
    {"read_at", reader_read_at, METH_O, "The record at a byte position of the file."},
    {"positions", reader_positions, METH_NOARGS, "Where every record begins."},
    {"tell", reader_tell, METH_NOARGS, "Where the next record begins."},
    {"close", reader_close, METH_NOARGS, "Closes the file."},
    {NULL, NULL, 0, NULL},
};
static PyTypeObject reader_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet._core.RecordReader",
    .tp_basicsize = sizeof(record_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "RecordReader(path): reads the records of a file.",
    .tp_new = reader_new,
    .tp_dealloc = record_dealloc,
    .tp_methods = reader_methods,
};

/* ---- writing -------------------------------------------------------------------------------------------------- */

static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *path, *index = NULL;
    if (keywords ||
        !PyArg_ParseTuple(args, "O&|O&:RecordWriter", PyUnicode_FSConverter, &path, PyUnicode_FSConverter, &index))
        return NULL;
    MX_SCOPE;
    PyObject *self =
        wrap_file(type, mx_record_writer_open(PyBytes_AS_STRING(path), index ? PyBytes_AS_STRING(index) : NULL));
    Py_DECREF(path);
    Py_XDECREF(index);
    return self;
}

/* write(bytes[, key]) */
static PyObject *writer_write(PyObject *object, PyObject *args)
{
    mx_record_writer *file = file_of(object);
    Py_buffer bytes;
    const char *key = NULL;
    if (!file || !PyArg_ParseTuple(args, "y*|z:write", &bytes, &key))
        return NULL;
    PyThreadState *state = let_go(bytes.len > LONG_WORK);
    const mx_code code = mx_record_write(file, key, bytes.buf, bytes.len);
    take_back(state);
    PyBuffer_Release(&bytes);
    return raise_if(code);
}

static PyObject *writer_tell(PyObject *object, PyObject *unused)
{
    mx_record_writer *file = file_of(object);
    (void)unused;
    return file ? PyLong_FromLongLong(mx_record_writer_position(file)) : NULL;
}

static PyObject *writer_close(PyObject *object, PyObject *unused)
{
    record_object *self = (record_object *)object;
    (void)unused;
    const mx_code code = self->file ? mx_record_writer_close(self->file) : MX_OK;
    mx_release(self->file);
    self->file = NULL;
    return raise_if(code);
}

static PyMethodDef writer_methods[] = {
    {"write", writer_write, METH_VARARGS, "Appends a record, under a key if there is an index."},
    {"tell", writer_tell, METH_NOARGS, "Where the next record will begin."},
    {"close", writer_close, METH_NOARGS, "Completes the file."},
    {NULL, NULL, 0, NULL},
};
static PyTypeObject writer_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet._core.RecordWriter",
    .tp_basicsize = sizeof(record_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "RecordWriter(path, index_path=None): writes records; the files appear when it is closed.",
    .tp_new = writer_new,
    .tp_dealloc = record_dealloc,
    .tp_methods = writer_methods,
};

/* ---- index and image records --------------------------------------------------------------------------------- */

/* record_index(path): a list of (key, position) in the order of the file. */
static PyObject *record_index(PyObject *self, PyObject *source)
{
    PyObject *path;
    (void)self;
    if (!PyUnicode_FSConverter(source, &path))
        return NULL;
    MX_SCOPE;
    mx_record_index *index = mx_record_index_load(PyBytes_AS_STRING(path));
    Py_DECREF(path);
    const int64_t n = index ? mx_record_index_count(index) : 0;
    PyObject *list = index ? PyList_New((Py_ssize_t)n) : raise_error();
    for (int64_t i = 0; list && i < n; i++) {
        const long long position = mx_record_index_position(index, i);
        PyObject *row = Py_BuildValue("sL", mx_record_index_key(index, i), position);
        if (!row)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, row);
    }
    return list;
}

/* record_pack(label, id, id2, payload): label is a number, or a buffer of float32 for several labels. */
static PyObject *record_pack(PyObject *self, PyObject *args)
{
    PyObject *label;
    unsigned long long id, id2;
    Py_buffer payload, labels = {.len = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OKKy*:record_pack", &label, &id, &id2, &payload))
        return NULL;
    mx_record_header header = {.id = id, .id2 = id2};
    PyObject *result = NULL;
    MX_SCOPE;
    if (is_number(label))
        header.label = (float)PyFloat_AsDouble(label);
    else
        PyObject_GetBuffer(label, &labels, PyBUF_C_CONTIGUOUS);
    if (!PyErr_Occurred()) {
        const int64_t n = labels.len / (Py_ssize_t)sizeof(float);
        result = bytes_of(mx_record_pack(header, labels.buf, n, payload.buf, payload.len));
    }
    if (labels.obj)
        PyBuffer_Release(&labels);
    PyBuffer_Release(&payload);
    return result;
}

/* record_unpack(record): (flag, label or an NDArray of them, id, id2, payload). */
static PyObject *record_unpack(PyObject *self, PyObject *args)
{
    Py_buffer bytes;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*:record_unpack", &bytes))
        return NULL;
    MX_SCOPE;
    mx_record_header header;
    mx_array *labels, *payload, *record = mx_array_from(MX_DIMS(bytes.len), MX_UINT8, bytes.buf);
    const bool good = record && !mx_record_unpack(record, &header, &labels, &payload);
    PyBuffer_Release(&bytes);
    if (!good)
        return raise_error();
    PyObject *label = header.flag ? nd_wrap(labels) : PyFloat_FromDouble(header.label), *rest = bytes_of(payload);
    return label && rest ? Py_BuildValue("INKKN", (unsigned)header.flag, label, (unsigned long long)header.id,
                                         (unsigned long long)header.id2, rest)
                         : (Py_XDECREF(label), Py_XDECREF(rest), NULL);
}

/* ---- record files from image files ------------------------------------------------------------------------------ */

static void report_line(void *user, const char *line)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *text = PyUnicode_DecodeFSDefault(line), *result = text ? PyObject_CallOneArg(user, text) : NULL;
    if (!result)
        PyErr_WriteUnraisable(user);
    Py_XDECREF(text);
    Py_XDECREF(result);
    PyGILState_Release(state);
}

/* The texts of a tuple, which keeps them alive; false with an exception. */
static bool texts_of(PyObject *tuple, const char **texts, Py_ssize_t most)
{
    const Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    if (n > most)
        return PyErr_Format(PyExc_ValueError, "im2rec: more than %zd suffixes", most), false;
    for (Py_ssize_t i = 0; i < n; i++)
        if (!(texts[i] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, i))))
            return false;
    return true;
}

/* im2rec(lists, prefix, root, exts, recursive, chunks, train_ratio, test_ratio, shuffle, pass_through, resize,
 * center_crop, quality, num_thread, color, encoding, pack_label, report) */
static PyObject *im2rec(PyObject *self, PyObject *args)
{
    struct mx_im2rec_args o = {.report = report_line};
    const char *exts[65] = {NULL};
    int lists, recursive, shuffle, pass_through, crop, all;
    PyObject *prefix = NULL, *root = NULL, *suffixes, *report;
    long long resize;
    (void)self;
    if (!PyArg_ParseTuple(args, "pO&O&O!piddppLpiiispO:im2rec", &lists, PyUnicode_FSConverter, &prefix,
                          PyUnicode_FSConverter, &root, &PyTuple_Type, &suffixes, &recursive, &o.chunks, &o.train_ratio,
                          &o.test_ratio, &shuffle, &pass_through, &resize, &crop, &o.quality, &o.num_thread, &o.color,
                          &o.encoding, &all, &report) ||
        !texts_of(suffixes, exts, 64)) {
        Py_XDECREF(prefix);
        Py_XDECREF(root);
        return NULL;
    }
    o.prefix = PyBytes_AS_STRING(prefix), o.root = PyBytes_AS_STRING(root), o.exts = exts, o.user = report;
    o.recursive = recursive, o.shuffle = shuffle, o.pass_through = pass_through, o.resize = resize;
    o.center_crop = crop, o.pack_label = all;
    PyThreadState *state = let_go(true);
    const mx_code code = lists ? mx_im2rec_make_lists(&o) : mx_im2rec_make_records(&o);
    take_back(state);
    Py_DECREF(prefix);
    Py_DECREF(root);
    return raise_if(code);
}

static PyMethodDef functions[] = {
    {"record_index", record_index, METH_O, "Keys and positions of an index file."},
    {"record_pack", record_pack, METH_VARARGS, "An image record from its parts."},
    {"record_unpack", record_unpack, METH_VARARGS, "The parts of an image record."},
    {"im2rec", im2rec, METH_VARARGS, "Lists of images, or record files of the images in lists."},
    {NULL, NULL, 0, NULL},
};

int add_records(PyObject *module)
{
    if (PyType_Ready(&reader_type) || PyType_Ready(&writer_type) ||
        PyModule_AddObjectRef(module, "RecordReader", (PyObject *)&reader_type) ||
        PyModule_AddObjectRef(module, "RecordWriter", (PyObject *)&writer_type))
        return -1;
    return PyModule_AddFunctions(module, functions);
}
