/* Objects of described classes: options from Python arguments, and the base type of the wrappers.
 *
 *     class SGD(Optimizer, _core.OptimizerRow)      OptimizerRow is a Described
 *     self._start(MX_OPTIMIZER, "SGD", momentum=0.9)   creates the C object; self.momentum reads its option
 *
 * Invariant: an option is stored once, in the C struct; Python sees it as an attribute.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "core.h"
#include "skin.h"
#include "gluon/train/learning.h"

/* ---- options ---------------------------------------------------------------------------------------------------- */

static int count_of(const mx_class *cls) { return cls->schema ? cls->schema->count : 0; }

static const mx_field *find_option(const mx_class *cls, PyObject *name)
{
    for (int i = 0; i < count_of(cls); i++)
        if (!PyUnicode_CompareWithASCIIString(name, cls->schema->fields[i].name))
            return &cls->schema->fields[i];
    return NULL;
}

/* An option that points to another object, of the kind that its rule names. */
static int set_object(const mx_class *cls, const mx_field *field, void **slot, PyObject *value)
{
    if (!strcmp(field->rule, "mx_initializer"))
        *slot = initializer_from(value, cls->name);
    else if (!strcmp(field->rule, "mx_lr_scheduler"))
        *slot = scheduler_from(value, cls->name);
    else if (!strcmp(field->rule, "mx_block") && PyObject_TypeCheck(value, &block_type))
        *slot = block_of(value);
    else if (value == Py_None)
        *slot = NULL;
    else
        PyErr_Format(PyExc_TypeError, "%s: %s takes no %.200s", cls->name, field->name, Py_TYPE(value)->tp_name);
    return PyErr_Occurred() ? -1 : 0;
}

static int set_field(const mx_class *cls, const mx_field *field, void *options, PyObject *value)
{
    if (field->type == MX_FIELD_PTR)
        return set_object(cls, field, (void **)((char *)options + field->offset), value);
    return field_set(field, cls->schema, options, value, cls->name);
}

static PyObject *option_names(const mx_class *cls, const char *const *extra)
{
    PyObject *names = PyList_New(0);
    for (int i = 0; names && i < count_of(cls) + 8; i++) {
        const char *text = i < count_of(cls) ? cls->schema->fields[i].name : extra ? extra[i - count_of(cls)] : NULL;
        PyObject *item = text ? PyUnicode_FromString(text) : NULL;
        if (!text)
            break;
        if (!item || PyList_Append(names, item))
            Py_CLEAR(names);
        Py_XDECREF(item);
    }
    return names;
}

static int unknown_option(const mx_class *cls, PyObject *name, const char *const *extra)
{
    PyObject *fail = from_package("mxnet.registry", "unknown_option"), *names = fail ? option_names(cls, extra) : NULL;
    PyObject *result = names ? PyObject_CallFunction(fail, "sOO", cls->name, name, names) : NULL;
    Py_XDECREF(result), Py_XDECREF(names), Py_XDECREF(fail);
    return -1;
}

static int take_extra(PyObject *name, PyObject *value, const char *const *extra, PyObject **values)
{
    for (int i = 0; extra && extra[i]; i++)
        if (!PyUnicode_CompareWithASCIIString(name, extra[i])) {
            values[i] = value;
            return 1;
        }
    return 0;
}

static int take_keyword(const mx_class *cls, void *options, Py_ssize_t n, PyObject *name, PyObject *value)
{
    const mx_field *field = find_option(cls, name);
    if (!field)
        return 1;
    if (field - cls->schema->fields < n) {
        PyErr_Format(PyExc_TypeError, "%s: %s is given twice, by position and by name", cls->name, field->name);
        return -1;
    }
    return set_field(cls, field, options, value);
}

int options_from(const mx_class *cls, void *options, PyObject *const *args, Py_ssize_t n, PyObject *kwnames,
                 const char *const *extra, PyObject **extra_values)
{
    for (int i = 0; extra && extra[i]; i++)
        extra_values[i] = NULL;
    if (n > count_of(cls)) {
        PyErr_Format(PyExc_TypeError, "%s: takes %d arguments by position, got %zd", cls->name, count_of(cls), n);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        if (set_field(cls, &cls->schema->fields[i], options, args[i]))
            return -1;
    for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i);
        if (take_extra(name, args[n + i], extra, extra_values))
            continue;
        const int taken = take_keyword(cls, options, n, name, args[n + i]);
        if (taken)
            return taken < 0 ? -1 : unknown_option(cls, name, extra);
    }
    return 0;
}

/* ---- objects ---------------------------------------------------------------------------------------------------- */

static PyObject *described_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)args, (void)keywords;
    return type->tp_alloc(type, 0); /* zeroed */
}

static void described_dealloc(PyObject *object)
{
    mx_release(((described_object *)object)->object);
    Py_TYPE(object)->tp_free(object);
}

void *described_ready(PyObject *x)
{
    if (!((described_object *)x)->object)
        PyErr_Format(PyExc_RuntimeError, "%.200s: call __init__ of the base class first", Py_TYPE(x)->tp_name);
    return ((described_object *)x)->object;
}

/* Where an object of each kind stores its options. */
static void *options_of(const mx_class *cls, void *object)
{
    switch (cls->kind) {
    case MX_INITIALIZER: return ((mx_initializer *)object)->options;
    case MX_OPTIMIZER: return ((mx_optimizer *)object)->options;
    case MX_LR_SCHEDULER: return ((mx_lr_scheduler *)object)->options;
    case MX_METRIC: return ((mx_metric *)object)->options;
    default: return NULL;
    }
}

static void *make_object(mx_class *cls, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    const size_t bytes = cls->schema ? cls->schema->size : 0;
    void *options = core_memory(1, bytes + 1), *made = NULL;
    if (!options)
        return PyErr_NoMemory();
    if (bytes)
        memcpy(options, cls->defaults, bytes);
    mx_scope scope = mx_scope_open();
    if (!options_from(cls, options, args, n, kwnames, NULL, NULL)) {
        made = mx_retain(mx_class_make(cls, bytes ? options : NULL, NULL, NULL));
        if (!made)
            raise_error();
    }
    mx_scope_close(&scope);
    PyMem_Free(options);
    return made;
}

/* _start(kind, name, *options, **options) creates the C object. */
static PyObject *described_start(PyObject *object, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    described_object *self = (described_object *)object;
    if (n < 2)
        return PyErr_Format(PyExc_TypeError, "_start: expected a kind and a name");
    const char *name = PyUnicode_AsUTF8(args[1]);
    mx_class *cls = name ? mx_class_find((mx_class_kind)PyLong_AsLong(args[0]), name) : NULL;
    if (!cls)
        return raise_error();
    if (n > 2 + count_of(cls))
        return PyErr_Format(PyExc_TypeError, "%s: takes %d arguments by position, got %zd", name, count_of(cls), n - 2);
    void *made = make_object(cls, args + 2, n - 2, kwnames);
    if (!made)
        return NULL;
    mx_release(self->object);
    self->cls = cls, self->object = made, self->options = options_of(cls, made);
    Py_RETURN_NONE;
}

PyObject *schema_values(const mx_schema *schema, const void *options)
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && schema && i < schema->count; i++) {
        const mx_field *field = &schema->fields[i];
        PyObject *value = field->type == MX_FIELD_PTR ? NULL : field_get(field, options);
        if (value ? PyDict_SetItemString(dict, field->name, value) : field->type != MX_FIELD_PTR)
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

/* _options() -> dict of all options that are not objects */
static PyObject *described_options(PyObject *object, PyObject *unused)
{
    described_object *self = (described_object *)object;
    (void)unused;
    if (!described_ready(object))
        return NULL;
    return schema_values(self->cls->schema, self->options);
}

/* The option that an attribute accesses; NULL: none, or the class has an attribute of that name.  Options that are objects
 * cannot be changed. */
static const mx_field *attribute_field(PyObject *object, PyObject *name)
{
    const described_object *self = (described_object *)object;
    const mx_field *field = self->options ? find_option(self->cls, name) : NULL;
    if (!field || field->type == MX_FIELD_PTR || PyObject_HasAttr((PyObject *)Py_TYPE(object), name))
        return NULL;
    return field;
}

static PyObject *described_getattro(PyObject *object, PyObject *name)
{
    const mx_field *field = attribute_field(object, name);
    return field ? field_get(field, ((described_object *)object)->options) : PyObject_GenericGetAttr(object, name);
}

static int described_setattro(PyObject *object, PyObject *name, PyObject *value)
{
    described_object *self = (described_object *)object;
    const mx_field *field = value ? attribute_field(object, name) : NULL;
    return field ? set_field(self->cls, field, self->options, value) : PyObject_GenericSetAttr(object, name, value);
}

#define FAST(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL | METH_KEYWORDS
static PyMethodDef described_methods[] = {
    {"_start", FAST(described_start), "_start(kind, class name, options...): creates the library's object."},
    {"_options", described_options, METH_NOARGS, "All options as a dict."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject described_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet._core.Described",
    .tp_basicsize = sizeof(described_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = described_new,
    .tp_dealloc = described_dealloc,
    .tp_getattro = described_getattro,
    .tp_setattro = described_setattro,
    .tp_methods = described_methods,
    .tp_doc = "An object of a class that the library describes.",
};

int add_described_type(PyObject *module, PyTypeObject *type, const char *name)
{
    type->tp_base = type == &described_type ? NULL : &described_type;
    type->tp_basicsize = sizeof(described_object);
    type->tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    return PyType_Ready(type) ? -1 : PyModule_AddObjectRef(module, name, (PyObject *)type);
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

/* The default of an option; a whole number stays one. */
static PyObject *default_of(const mx_class *cls, const mx_field *field)
{
    if (!field->fallback || !strcmp(field->fallback, "None"))
        return core_new_ref(Py_None);
    if (field->type == MX_FIELD_PTR)
        return PyUnicode_FromString(field->fallback);
    if (field->type == MX_FIELD_FLOAT && field->fallback[strspn(field->fallback, "-0123456789")] == 0)
        return PyLong_FromString(field->fallback, NULL, 10);
    return field_get(field, cls->defaults);
}

/* ((name, default, is required, documentation), ...) */
static PyObject *row_options(const mx_class *cls)
{
    PyObject *tuple = PyTuple_New(count_of(cls));
    for (int i = 0; tuple && i < count_of(cls); i++) {
        const mx_field *field = &cls->schema->fields[i];
        PyObject *value = default_of(cls, field);
        PyObject *item =
            value ? Py_BuildValue("sNOs", field->name, value, field->fallback ? Py_False : Py_True, field->doc) : NULL;
        if (!item)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, item);
    }
    return tuple;
}

/* class_rows(kind) -> [(name, "alias alias", documentation, options, how many of the last are by name only), ...] */
static PyObject *class_rows(PyObject *module, PyObject *kind)
{
    const long wanted = PyLong_AsLong(kind);
    (void)module;
    if (wanted == -1 && PyErr_Occurred())
        return NULL;
    PyObject *list = PyList_New(0);
    const mx_class *cls;
    for (int i = 0; list && (cls = mx_class_at(i)) != NULL; i++) {
        if ((long)cls->kind != wanted)
            continue;
        PyObject *row = Py_BuildValue("sssNi", cls->name, cls->aliases ? cls->aliases : "", cls->doc, row_options(cls),
                                      cls->by_name);
        if (!row || PyList_Append(list, row))
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyMethodDef functions[] = {
    {"class_rows", class_rows, METH_O, "Descriptions of the classes of a kind."},
    {NULL, NULL, 0, NULL},
};

int add_described(PyObject *module)
{
    static const struct {
        const char *name;
        int kind;
    } kinds[] = {{"LAYER", MX_LAYER},
                 {"LOSS", MX_LOSS},
                 {"INITIALIZER", MX_INITIALIZER},
                 {"OPTIMIZER", MX_OPTIMIZER},
                 {"LR_SCHEDULER", MX_LR_SCHEDULER},
                 {"METRIC", MX_METRIC}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (PyModule_AddIntConstant(module, kinds[i].name, kinds[i].kind))
            return -1;
    return PyType_Ready(&described_type) || PyModule_AddObjectRef(module, "Described", (PyObject *)&described_type) ||
                   PyModule_AddFunctions(module, functions)
               ? -1
               : 0;
}
