/* The features of this build, for mx.runtime: MXNet's names, then our own.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "core.h"
#include "exec/device_sum.h"

#ifdef __x86_64__
enum { X86 = 1 };
#else
enum { X86 = 0 };
#endif
#ifdef HAVE_ZLIB
enum { ZLIB = 1 };
#else
enum { ZLIB = 0 };
#endif
#ifdef HAVE_JPEG
enum { JPEG = 1 };
#else
enum { JPEG = 0 };
#endif
#ifdef HAVE_PNG
enum { PNG = 1 };
#else
enum { PNG = 0 };
#endif
#ifdef GLUON_CUDA
enum { CUDA = 1 };
#else
enum { CUDA = 0 };
#endif
#ifdef NDEBUG
enum { DEBUG = 0 };
#else
enum { DEBUG = 1 };
#endif

static const struct {
    const char *name;
    bool enabled;
} features[] = {
    {"CUDA", CUDA},
    {"CUDNN", CUDA},
    {"NCCL", CUDA},
    {"TENSORRT", false},
    {"CPU_SSE", X86},
    {"CPU_SSE2", X86},
    {"CPU_SSE3", X86},
    {"CPU_SSE4_1", X86},
    {"CPU_SSE4_2", X86},
    {"CPU_AVX", X86},
    {"CPU_AVX2", X86},
    {"CPU_AVX512", X86},
    {"F16C", X86},
    {"OPENMP", false},
    {"JEMALLOC", false},
    {"BLAS_OPEN", false},
    {"BLAS_ATLAS", false},
    {"BLAS_MKL", false},
    {"BLAS_APPLE", false},
    {"LAPACK", true},
    {"MKLDNN", false},
    {"OPENCV", false},
    {"DIST_KVSTORE", false},
    {"INT64_TENSOR_SIZE", true},
    {"SIGNAL_HANDLER", false},
    {"PROFILER", true},
    {"DEBUG", DEBUG},
    {"TVM_OP", false},
    {"GZIP", ZLIB},
    {"JPEG", JPEG},
    {"PNG", PNG},
};

static PyObject *list_features(PyObject *self, PyObject *unused)
{
    const Py_ssize_t n = sizeof features / sizeof *features;
    PyObject *list = PyList_New(n);
    (void)self, (void)unused;
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *pair = Py_BuildValue("(sO)", features[i].name, features[i].enabled ? Py_True : Py_False);
        if (!pair)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, pair);
    }
    return list;
}

/* set_memory_limit(bytes): single allocations above it fail; 0: no limit.  What tests of bad input use. */
static PyObject *set_memory_limit(PyObject *self, PyObject *value)
{
    (void)self;
    const size_t bytes = PyLong_AsSize_t(value);
    if (bytes == (size_t)-1 && PyErr_Occurred())
        return NULL;
    mx_alloc_set_limit(bytes);
    Py_RETURN_NONE;
}

/* all_reduce([arrays on several devices]): each gets the sum of all. */
static PyObject *all_reduce(PyObject *self, PyObject *list)
{
    enum { MOST = 64 };
    mx_array *arrays[MOST];
    const Py_ssize_t n = PyList_Check(list) ? PyList_GET_SIZE(list) : 0;
    (void)self;
    if (n < 1 || n > MOST)
        return PyErr_Format(PyExc_ValueError, "all_reduce: expected a list of 1 to %d arrays", MOST);
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!nd_check(PyList_GET_ITEM(list, i)))
            return PyErr_Format(PyExc_TypeError, "all_reduce: expected an NDArray, got %.200s",
                                Py_TYPE(PyList_GET_ITEM(list, i))->tp_name);
        arrays[i] = nd_array(PyList_GET_ITEM(list, i));
    }
    return mx_all_reduce_arrays((int)n, arrays) ? raise_error() : core_new_ref(Py_None);
}

static PyMethodDef functions[] = {
    {"all_reduce", all_reduce, METH_O, "Every array of the list gets the sum of all; they may be on several devices."},
    {"set_memory_limit", set_memory_limit, METH_O, "Single allocations above this many bytes fail; 0: no limit."},
    {"features", list_features, METH_NOARGS, "Pairs of a feature's name and whether the build has it."},
    {NULL, NULL, 0, NULL},
};

int add_runtime(PyObject *module) { return PyModule_AddFunctions(module, functions); }
