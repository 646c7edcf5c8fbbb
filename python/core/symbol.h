/* Symbols as Python objects.
 *
 *     Symbol ---> mx_symbol (a list of outputs)  and, while it has one output, the symbolic mx_array of it
 *
 * Either is created from the other on demand.  Results of operators on symbolic arrays are wrapped as Symbols by
 * nd_wrap(), so symbols need no second path.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MXNET_SYMBOL_H
#define MXNET_SYMBOL_H

#include "core.h"
#include "gluon/symbol.h"

typedef struct sym_object {
    PyObject_HEAD mx_symbol *symbol; /* retained; NULL: not created yet */
    mx_array *array;                 /* retained; NULL: not created yet, or there are several outputs */
    PyObject *weakrefs;              /* list of weak references */
} sym_object;

extern PyTypeObject sym_type;
static inline bool sym_check(PyObject *x) { return Py_TYPE(x) == &sym_type || PyObject_TypeCheck(x, &sym_type); }
/* New Symbols; NULL arguments raise the library's error. */
PyObject *sym_wrap(mx_symbol *symbol);
PyObject *sym_wrap_array(mx_array *array);
/* Borrowed from the object; NULL with an exception. */
mx_symbol *sym_symbol(PyObject *x);
mx_array *sym_array(PyObject *x, const char *who); /* several outputs are an error */
int64_t sym_count(PyObject *x);                    /* outputs */
/* The array of an NDArray or Symbol; NULL with an exception naming `who`. */
mx_array *any_array(PyObject *x, const char *who);
/* The arrays of a list of them, owned by the scope; n < 0 with an exception. */
mx_arrays any_arrays(PyObject *source, const char *who);
/* A Python function that the library called failed: the error that the library passes on. */
mx_code callback_failed(const char *who);
static inline bool any_check(PyObject *x) { return nd_check(x) || sym_check(x); }

/* A call of an operator on symbols with the arguments of a vectorcall. */
PyObject *sym_call(const op_object *op, PyObject *const *args, Py_ssize_t n, PyObject *keywords);
/* The name of a new node, from the thread's naming scope.  Belongs to the scope; NULL with an exception. */
const char *sym_name(const char *name, const char *hint);
/* Sets a name manager written in Python (None: none) until the next block is entered; returns the previous one. */
PyObject *sym_swap_manager(PyObject *manager); /* steals and returns references; NULL: none */
/* Raises an error: the values of symbols are not known; names the line of the program.  Returns NULL. */
PyObject *sym_refuse(const char *what);
/* Names of the library as a list of str. */
PyObject *names_to(mx_names names);

/* What is known of arguments, as struct mx_known has it. */
typedef struct sym_known {
    int n;
    const char **names; /* NULL: by position */
    mx_dims *shapes;
    mx_dtype *types;
} sym_known;
/* Lists of names (or None), shapes (or None) and types (or None) of one length; free_known() also after a failure. */
int read_known(sym_known *k, PyObject *names, PyObject *shapes, PyObject *types);
void free_known(sym_known *k);

extern PyNumberMethods sym_number;
PyObject *sym_binary(int row, PyObject *a, PyObject *b); /* entries as in number.c */
PyObject *sym_richcompare(PyObject *a, PyObject *b, int operation);
extern PyMethodDef sym_ask_methods[];

int add_symbols(PyObject *module);
int add_symbol_operators(PyObject *module);
int add_symbol_numbers(PyObject *module);
int add_symbol_questions(PyObject *module);
int add_executors(PyObject *module);

#endif
