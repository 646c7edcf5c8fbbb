/* Images: files in and out, sizes and crops of gluon/image.h.  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/image.h"

#include "base/error.h"
#include "core.h"
#include "skin.h"

static PyObject *wrap(mx_array *image) { return image ? nd_wrap(image) : raise_error(); }

/* imdecode(bytes, flag, to_rgb): the image in the bytes of a file.  Other threads run meanwhile. */
static PyObject *imdecode(PyObject *self, PyObject *args)
{
    Py_buffer bytes;
    int flag, to_rgb;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*ip:imdecode", &bytes, &flag, &to_rgb))
        return NULL;
    MX_SCOPE;
    PyThreadState *state = let_go(true);
    mx_array *image = mx_imdecode(bytes.buf, bytes.len, .flag = flag, .to_rgb = to_rgb);
    take_back(state);
    PyBuffer_Release(&bytes);
    return wrap(image);
}

/* imread(path, flag, to_rgb) */
static PyObject *imread(PyObject *self, PyObject *args)
{
    PyObject *path;
    int flag, to_rgb;
    (void)self;
    if (!PyArg_ParseTuple(args, "O&ip:imread", PyUnicode_FSConverter, &path, &flag, &to_rgb))
        return NULL;
    MX_SCOPE;
    PyThreadState *state = let_go(true);
    mx_array *image = mx_imread(PyBytes_AS_STRING(path), .flag = flag, .to_rgb = to_rgb);
    take_back(state);
    Py_DECREF(path);
    return wrap(image);
}

/* imencode(image, format, quality, rgb): the bytes of a file. */
static PyObject *imencode(PyObject *self, PyObject *args)
{
    PyObject *image;
    const char *format;
    int quality, rgb;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!sip:imencode", &nd_type, &image, &format, &quality, &rgb))
        return NULL;
    MX_SCOPE;
    PyThreadState *state = let_go(true);
    mx_array *bytes = mx_imencode(nd_array(image), format, .quality = quality, .rgb = rgb);
    take_back(state);
    return bytes ? PyBytes_FromStringAndSize(mx_array_data(bytes), (Py_ssize_t)bytes->size) : raise_error();
}

/* resize_short(image, size, interp) */
static PyObject *resize_short(PyObject *self, PyObject *args)
{
    PyObject *image;
    long long size;
    int interp;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!Li:resize_short", &nd_type, &image, &size, &interp))
        return NULL;
    MX_SCOPE;
    PyThreadState *state = let_go(true);
    mx_array *out = mx_image_resize_short(nd_array(image), size, interp);
    take_back(state);
    return wrap(out);
}

/* fixed_crop(image, x, y, width, height, new width, new height, interp); new sizes 0: not resized. */
static PyObject *fixed_crop(PyObject *self, PyObject *args)
{
    PyObject *image;
    long long x, y, w, h, width, height;
    int interp;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!LLLLLLi:fixed_crop", &nd_type, &image, &x, &y, &w, &h, &width, &height, &interp))
        return NULL;
    MX_SCOPE;
    PyThreadState *state = let_go(true);
    mx_array *out = mx_image_fixed_crop(nd_array(image), (mx_region){x, y, w, h}, width, height, interp);
    take_back(state);
    return wrap(out);
}

/* scale_down(source width, source height, width, height): (width, height) */
static PyObject *scale_down(PyObject *self, PyObject *args)
{
    long long source_width, source_height, w, h;
    (void)self;
    if (!PyArg_ParseTuple(args, "LLLL:scale_down", &source_width, &source_height, &w, &h))
        return NULL;
    int64_t width = w, height = h;
    mx_image_scale_down(source_width, source_height, &width, &height);
    return Py_BuildValue("LL", (long long)width, (long long)height);
}

/* image_interp(interp, height, width, new height, new width): one of 0..4. */
static PyObject *image_interp(PyObject *self, PyObject *args)
{
    int interp;
    long long h, w, new_h, new_w;
    (void)self;
    if (!PyArg_ParseTuple(args, "iLLLL:image_interp", &interp, &h, &w, &new_h, &new_w))
        return NULL;
    const int method = mx_image_interp(interp, h, w, new_h, new_w);
    return method < 0 ? raise_error() : PyLong_FromLong(method);
}

static PyMethodDef functions[] = {
    {"imdecode", imdecode, METH_VARARGS, "The image in the bytes of a file."},
    {"imread", imread, METH_VARARGS, "The image in a file."},
    {"imencode", imencode, METH_VARARGS, "The bytes of an image file."},
    {"resize_short", resize_short, METH_VARARGS, "An image whose shorter side has this size."},
    {"fixed_crop", fixed_crop, METH_VARARGS, "A region of an image, resized."},
    {"scale_down", scale_down, METH_VARARGS, "The largest size of this shape that fits."},
    {"image_interp", image_interp, METH_VARARGS, "The interpolation of a number."},
    {NULL, NULL, 0, NULL},
};

int add_images(PyObject *module) { return PyModule_AddFunctions(module, functions); }
