/* Symbols as Python objects.
 *
 *     Symbol ---> mx_symbol (a list of outputs)  and, while it has one output, the symbolic mx_array of it
 *
 * Either is made from the other when somebody asks.  Results of operators on symbolic arrays are wrapped as Symbols by
 * nd_wrap(), so "what you pass in is what you get out" needs no second path.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MXNET_SYMBOL_H
#define MXNET_SYMBOL_H

#include "core.h"
#include "gluon/symbol.h"

typedef struct sym_object {
    PyObject_HEAD mx_symbol *symbol; /* retained; NULL: not asked for yet */
    mx_array *array;                 /* retained; NULL: not asked for yet, or there are several outputs */
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
static inline bool any_check(PyObject *x) { return nd_check(x) || sym_check(x); }

/* A call of an operator on symbols with the arguments of a vectorcall. */
PyObject *sym_call(const op_object *op, PyObject *const *args, Py_ssize_t n, PyObject *keywords);
/* The name of a new node: what the thread's naming scope makes of it.  Belongs to the scope; NULL with an exception. */
const char *sym_name(const char *name, const char *hint);
/* A manager of names written in Python (None: none) serves until the next block is entered; returns the one before. */
PyObject *sym_swap_manager(PyObject *manager); /* takes and gives references; NULL is none */
/* Says that the values of symbols are not known, naming the line of the program; returns NULL. */
PyObject *sym_refuse(const char *what);
/* Names of the library as a list of str. */
PyObject *names_to(mx_names names);

extern PyNumberMethods sym_number;
PyObject *sym_binary(int row, PyObject *a, PyObject *b); /* rows as in number.c */
PyObject *sym_richcompare(PyObject *a, PyObject *b, int operation);
extern PyMethodDef sym_ask_methods[];

int add_symbols(PyObject *module);
int add_symbol_operators(PyObject *module);
int add_symbol_numbers(PyObject *module);
int add_symbol_questions(PyObject *module);
int add_executors(PyObject *module);

#endif
