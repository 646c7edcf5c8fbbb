/* Ctrl-C stops a call that takes long.  SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* syscall */
#include "core.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gluon/limits.h"

/* Whether Ctrl-C was pressed.  It stays pending: the interpreter, or raise_error, raises the exception.  A handler of the
 * program's own runs after the call, as usual. */
static bool wants_to_stop(void)
{
    const PyGILState_STATE gil = PyGILState_Ensure();
    bool stop = false;
    if (PyOS_InterruptOccurred()) {
        PyErr_SetInterrupt();
        PyObject *error_type, *error, *trace;
        PyErr_Fetch(&error_type, &error, &trace);
        PyObject *module = PyImport_ImportModule("_signal");
        PyObject *usual = module ? PyObject_GetAttrString(module, "default_int_handler") : NULL;
        PyObject *now = usual ? PyObject_CallMethod(module, "getsignal", "i", SIGINT) : NULL;
        stop = now && now == usual;
        Py_XDECREF(module), Py_XDECREF(usual), Py_XDECREF(now);
        PyErr_Restore(error_type, error, trace);
    }
    PyGILState_Release(gil);
    return stop;
}

/* Signals of Python reach its main thread only. */
int add_signals(PyObject *module)
{
    (void)module;
#ifdef __linux__
    if (getpid() == (pid_t)syscall(SYS_gettid))
#endif
        mx_set_interrupt(wants_to_stop);
    return 0;
}
