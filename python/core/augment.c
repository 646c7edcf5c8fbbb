/* Augmenters: colours, random crops and boxes of gluon/image.h.
 *
 * Random numbers come from an object that the caller passes, with uniform(low, high) and randint(low, high): Python's
 * module random or a random.Random, which programs seed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "gluon/image.h"
#include "skin.h"
#include "symbol.h"

static PyObject *wrap(mx_array *image) { return image ? nd_wrap(image) : raise_error(); }

/* ---- draws ------------------------------------------------------------------------------------------------------- */

/* After an exception nothing more is drawn; callers check for it at the end. */
static double draw_uniform(void *user, double low, double high)
{
    PyObject *number = PyErr_Occurred() ? NULL : PyObject_CallMethod(user, "uniform", "dd", low, high);
    const double value = number ? PyFloat_AsDouble(number) : low;
    Py_XDECREF(number);
    return value;
}

static int64_t draw_integer(void *user, int64_t low, int64_t high)
{
    PyObject *number =
        PyErr_Occurred() ? NULL : PyObject_CallMethod(user, "randint", "LL", (long long)low, (long long)high);
    const int64_t value = number ? PyLong_AsLongLong(number) : low;
    Py_XDECREF(number);
    return value;
}

static mx_draws draws_of(PyObject *source) { return (mx_draws){draw_uniform, draw_integer, source}; }

/* ---- regions ----------------------------------------------------------------------------------------------------- */

static PyObject *region_to(mx_region r)
{
    return Py_BuildValue("LLLL", (long long)r.x, (long long)r.y, (long long)r.width, (long long)r.height);
}

/* crop_region(width, height, crop width, crop height, random or None): (x, y, w, h), in the middle without random. */
static PyObject *crop_region(PyObject *self, PyObject *args)
{
    long long w, h, crop_w, crop_h;
    PyObject *random;
    (void)self;
    if (!PyArg_ParseTuple(args, "LLLLO:crop_region", &w, &h, &crop_w, &crop_h, &random))
        return NULL;
    const mx_draws draws = draws_of(random);
    const mx_region r = random == Py_None ? mx_image_center_region(w, h, crop_w, crop_h)
                                          : mx_image_random_region(w, h, crop_w, crop_h, &draws);
    return PyErr_Occurred() ? NULL : region_to(r);
}

/* random_part(width, height, (area, area), (ratio, ratio), log_ratio, tries, random): (x, y, w, h) or None. */
static PyObject *random_part(PyObject *self, PyObject *args)
{
    long long w, h;
    mx_parts parts;
    mx_region r;
    int log_ratio;
    PyObject *random;
    (void)self;
    if (!PyArg_ParseTuple(args, "LL(dd)(dd)piO:random_part", &w, &h, &parts.area[0], &parts.area[1], &parts.ratio[0],
                          &parts.ratio[1], &log_ratio, &parts.tries, &random))
        return NULL;
    parts.log_ratio = log_ratio;
    if (log_ratio && !(parts.ratio[0] > 0 && parts.ratio[1] > 0))
        return PyErr_Format(PyExc_ValueError, "random_size_crop: ratios of width to height must be positive");
    const mx_draws draws = draws_of(random);
    const bool found = mx_image_random_part(w, h, &parts, &draws, &r);
    return PyErr_Occurred() ? NULL : found ? region_to(r) : core_new_ref(Py_None);
}

/* ---- colours ----------------------------------------------------------------------------------------------------- */

typedef mx_array *(*colour_fn)(mx_array *image, double alpha);
static const struct {
    const char *name;
    colour_fn change;
} colours[] = {{"brightness", mx_image_brightness},
               {"contrast", mx_image_contrast},
               {"saturation", mx_image_saturation},
               {"hue", mx_image_hue}};

/* image_warp(image, angle, shear, scale, ratio, min_size, max_size, fill, interp) */
static PyObject *image_warp(PyObject *self, PyObject *args)
{
    PyObject *image;
    mx_warp warp = MX_NO_WARP;
    long long least, most;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!ddddLLii:image_warp", &nd_type, &image, &warp.angle, &warp.shear, &warp.scale,
                          &warp.ratio, &least, &most, &warp.fill, &warp.interp))
        return NULL;
    warp.min_size = least, warp.max_size = most;
    MX_SCOPE;
    PyThreadState *state = let_go(true);
    mx_array *result = mx_image_warp(nd_array(image), &warp);
    take_back(state);
    return wrap(result);
}

/* image_shift_hls(image, hue, lightness, saturation) */
static PyObject *image_shift_hls(PyObject *self, PyObject *args)
{
    PyObject *image;
    int shifts[3];
    (void)self;
    if (!PyArg_ParseTuple(args, "O!iii:image_shift_hls", &nd_type, &image, &shifts[0], &shifts[1], &shifts[2]))
        return NULL;
    MX_SCOPE;
    PyThreadState *state = let_go(true);
    mx_array *result = mx_image_shift_hls(nd_array(image), shifts[0], shifts[1], shifts[2]);
    take_back(state);
    return wrap(result);
}

/* image_colour(image, what, alpha) */
static PyObject *image_colour(PyObject *self, PyObject *args)
{
    PyObject *image;
    const char *what;
    double alpha;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!sd:image_colour", &nd_type, &image, &what, &alpha))
        return NULL;
    for (size_t i = 0; i < sizeof colours / sizeof *colours; i++) {
        if (strcmp(colours[i].name, what))
            continue;
        MX_SCOPE;
        PyThreadState *state = let_go(true);
        mx_array *out = colours[i].change(nd_array(image), alpha);
        take_back(state);
        return wrap(out);
    }
    return PyErr_Format(PyExc_ValueError, "image_colour: unknown change '%s'", what);
}

/* image_lighting(image, (3 strengths), (3 values), ((3), (3), (3)) vectors); the last two may be None. */
static PyObject *image_lighting(PyObject *self, PyObject *args)
{
    PyObject *image, *values, *vectors;
    double alpha[3], v[3], m[9];
    (void)self;
    if (!PyArg_ParseTuple(args, "O!(ddd)OO:image_lighting", &nd_type, &image, &alpha[0], &alpha[1], &alpha[2], &values,
                          &vectors) ||
        (values != Py_None && !PyArg_ParseTuple(values, "ddd:image_lighting", &v[0], &v[1], &v[2])) ||
        (vectors != Py_None && !PyArg_ParseTuple(vectors, "(ddd)(ddd)(ddd):image_lighting", &m[0], &m[1], &m[2], &m[3],
                                                 &m[4], &m[5], &m[6], &m[7], &m[8])))
        return NULL;
    MX_SCOPE;
    return wrap(mx_image_lighting(nd_array(image), alpha, values == Py_None ? NULL : v, vectors == Py_None ? NULL : m));
}

/* image_gray(image) */
static PyObject *image_gray(PyObject *self, PyObject *image)
{
    (void)self;
    if (!nd_check(image))
        return PyErr_Format(PyExc_TypeError, "image_gray: expected an NDArray, got %s", Py_TYPE(image)->tp_name);
    MX_SCOPE;
    return wrap(mx_image_gray(nd_array(image)));
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

/* (boxes, region); None without boxes unless there is an error. */
static PyObject *boxes_and_region(mx_array *boxes, mx_region region)
{
    if (PyErr_Occurred())
        return NULL;
    if (!boxes)
        return mx_has_error() ? raise_error() : core_new_ref(Py_None);
    return Py_BuildValue("NN", nd_wrap(boxes), region_to(region));
}

/* boxes_flip(boxes) */
static PyObject *boxes_flip(PyObject *self, PyObject *boxes)
{
    (void)self;
    if (!nd_check(boxes))
        return PyErr_Format(PyExc_TypeError, "boxes_flip: expected an NDArray, got %s", Py_TYPE(boxes)->tp_name);
    MX_SCOPE;
    return wrap(mx_boxes_flip(nd_array(boxes)));
}

/* boxes_crop(boxes, width, height, covered, eject, (area, area), (ratio, ratio), tries, random): (boxes, region) or
 * None. */
static PyObject *boxes_crop(PyObject *self, PyObject *args)
{
    PyObject *boxes, *random;
    long long w, h;
    mx_box_crop how = {0};
    mx_region r = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "O!LLdd(dd)(dd)iO:boxes_crop", &nd_type, &boxes, &w, &h, &how.min_object_covered,
                          &how.min_eject_coverage, &how.parts.area[0], &how.parts.area[1], &how.parts.ratio[0],
                          &how.parts.ratio[1], &how.parts.tries, &random))
        return NULL;
    MX_SCOPE;
    const mx_draws draws = draws_of(random);
    mx_array *kept = mx_boxes_random_crop(nd_array(boxes), w, h, &how, &draws, &r);
    return boxes_and_region(kept, r);
}

/* boxes_pad(boxes, width, height, (area, area), (ratio, ratio), tries, random): (boxes, frame) or None. */
static PyObject *boxes_pad(PyObject *self, PyObject *args)
{
    PyObject *boxes, *random;
    long long w, h;
    mx_parts parts = {0};
    mx_region frame = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "O!LL(dd)(dd)iO:boxes_pad", &nd_type, &boxes, &w, &h, &parts.area[0], &parts.area[1],
                          &parts.ratio[0], &parts.ratio[1], &parts.tries, &random))
        return NULL;
    MX_SCOPE;
    const mx_draws draws = draws_of(random);
    mx_array *moved = mx_boxes_random_pad(nd_array(boxes), w, h, &parts, &draws, &frame);
    return boxes_and_region(moved, frame);
}

/* boxes_parse(label): the objects in it, or None. */
static PyObject *boxes_parse(PyObject *self, PyObject *label)
{
    (void)self;
    if (!nd_check(label))
        return PyErr_Format(PyExc_TypeError, "boxes_parse: expected an NDArray, got %s", Py_TYPE(label)->tp_name);
    MX_SCOPE;
    mx_array *boxes = mx_boxes_parse(nd_array(label));
    return boxes ? nd_wrap(boxes) : mx_has_error() ? raise_error() : core_new_ref(Py_None);
}

/* ---- the usual augmenters ---------------------------------------------------------------------------------------- */

/* augmenter_names(boxes, resize, rand_crop, rand_resize, rand_mirror, rand_pad, brightness, contrast, saturation, hue,
 * pca_noise, rand_gray, normalize): names of their classes, in order. */
static PyObject *augmenter_names(PyObject *self, PyObject *args)
{
    struct mx_augmenter_args o = {.mean = {.n = -1}, .std = {.n = -1}};
    int boxes, resized, mirror, normalize;
    double resize;
    (void)self;
    if (!PyArg_ParseTuple(args, "pddppdddddddp:augmenter_names", &boxes, &resize, &o.rand_crop, &resized, &mirror,
                          &o.rand_pad, &o.brightness, &o.contrast, &o.saturation, &o.hue, &o.pca_noise, &o.rand_gray,
                          &normalize))
        return NULL;
    o.resize = resize > 0, o.rand_resize = resized, o.rand_mirror = mirror;
    o.mean.n = normalize ? 1 : -1;
    MX_SCOPE;
    return names_to(mx_augmenter_names(&o, boxes));
}

/* photograph_colours(): mean, std, eigenvalues and eigenvectors of the colours of photographs. */
static PyObject *photograph_colours(PyObject *self, PyObject *unused)
{
    const double *m = mx_image_mean, *s = mx_image_std, *v = mx_image_eigval, *a = mx_image_eigvec;
    (void)self, (void)unused;
    return Py_BuildValue("[ddd][ddd][ddd][[ddd][ddd][ddd]]", m[0], m[1], m[2], s[0], s[1], s[2], v[0], v[1], v[2], a[0],
                         a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]);
}

static PyMethodDef functions[] = {
    {"crop_region", crop_region, METH_VARARGS, "The region of a crop, centred or random."},
    {"random_part", random_part, METH_VARARGS, "A random region of an image; None if none fits."},
    {"image_warp", image_warp, METH_VARARGS, "An image turned, sheared and scaled around its centre."},
    {"image_shift_hls", image_shift_hls, METH_VARARGS, "An image with other hues, lightness and saturation."},
    {"image_colour", image_colour, METH_VARARGS, "An image with another brightness, contrast, saturation or hue."},
    {"image_lighting", image_lighting, METH_VARARGS, "An image with its colours shifted."},
    {"image_gray", image_gray, METH_O, "A gray image in three channels."},
    {"boxes_flip", boxes_flip, METH_O, "The boxes of a flipped image."},
    {"boxes_crop", boxes_crop, METH_VARARGS, "A random crop and the boxes in it."},
    {"boxes_pad", boxes_pad, METH_VARARGS, "A random frame around an image and its boxes in it."},
    {"augmenter_names", augmenter_names, METH_VARARGS, "Names of the usual augmenters, in order."},
    {"photograph_colours", photograph_colours, METH_NOARGS, "Mean, std, eigenvalues and eigenvectors of the colours of photographs."},
    {"boxes_parse", boxes_parse, METH_O, "The boxes of a label."},
    {NULL, NULL, 0, NULL},
};

int add_augmenters(PyObject *module) { return PyModule_AddFunctions(module, functions); }
