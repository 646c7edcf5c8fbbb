/* Messages of exceptions that are on their way: the path of blocks is put before them, and operators are named as the
 * program called them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "block.h"
#include "gluon/block/blame.h"

/* Replaces the message by what change() makes of it; NULL: it stays.  A failure here must not hide the exception. */
static void change_message(PyObject *(*change)(const char *text, const void *user), const void *user)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *args = value ? PyObject_GetAttrString(value, "args") : NULL;
    PyObject *message = args && PyTuple_Check(args) && PyTuple_GET_SIZE(args) == 1 ? PyTuple_GET_ITEM(args, 0) : NULL;
    const char *text = message && PyUnicode_Check(message) ? PyUnicode_AsUTF8(message) : NULL;
    PyObject *changed = text ? change(text, user) : NULL;
    PyObject *tuple = changed ? PyTuple_Pack(1, changed) : NULL;
    if (tuple)
        PyObject_SetAttrString(value, "args", tuple);
    Py_XDECREF(tuple), Py_XDECREF(changed), Py_XDECREF(args);
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static PyObject *with_path(const char *text, const void *user)
{
    char prefix[MX_BLAME_TEXT];
    const size_t old = mx_blame_prefix(text, prefix);
    (void)user;
    return old ? PyUnicode_FromFormat("%s%s", prefix, text + old) : NULL;
}

/* A call failed: the block becomes part of the path in the exception's message (gluon/block/blame.h). */
void block_blame(const mx_block *block)
{
    mx_block_blame(block);
    if (PyErr_Occurred())
        change_message(with_path, NULL);
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

/* "contrib.box_nms" for _contrib_box_nms, "zeros" for _zeros, "concat" for Concat called by that name. */
static void called_name(const op_object *self, char *buffer, size_t size)
{
    static const struct {
        const char *prefix, *module;
    } families[] = {{"_contrib_", "contrib."}, {"_linalg_", "linalg."}, {"_image_", "image."},
                    {"_sparse_", "sparse."},   {"_random_", "random."}, {"_npi_", "np."},
                    {"_npx_", "npx."},         {"_np_", "np."},         {"_", ""}};
    const char *name = PyUnicode_AsUTF8(self->name);
    for (size_t i = 0; name && i < sizeof families / sizeof *families; i++) {
        const size_t length = strlen(families[i].prefix);
        if (!strncmp(name, families[i].prefix, length)) {
            snprintf(buffer, size, "%s%s", families[i].module, name + length);
            return;
        }
    }
    snprintf(buffer, size, "%s", name ? name : self->op->name);
}

static PyObject *with_called_name(const char *text, const void *user)
{
    const op_object *self = user;
    const size_t length = strlen(self->op->name);
    char name[96];
    if (strncmp(text, self->op->name, length) || text[length] != ':')
        return NULL; /* it does not begin with the operator's name */
    called_name(self, name, sizeof name);
    return strcmp(name, self->op->name) ? PyUnicode_FromFormat("%s%s", name, text + length) : NULL;
}

void op_show_called_name(const op_object *self) { change_message(with_called_name, self); }
