/* CPython API done right: parse, let go, wait, take back, build. */
#include <Python.h>
#include <poll.h>
static PyObject* wait_any(PyObject* self, PyObject* args) {
    int fd, timeout, ready;
    struct pollfd entry;
    if (!PyArg_ParseTuple(args, "ii", &fd, &timeout)) return NULL;
    entry.fd = fd;
    entry.events = POLLIN;
    do {
        Py_BEGIN_ALLOW_THREADS
        ready = poll(&entry, 1, timeout);
        Py_END_ALLOW_THREADS
        if (ready >= 0) break;
        if (PyErr_CheckSignals()) return NULL;
    } while (errno == EINTR);
    return PyLong_FromLong(ready);
}
static PyObject* peek(PyObject* self, PyObject* args) {
    struct pollfd entry = {0, POLLIN, 0};
    return PyLong_FromLong(poll(&entry, 1, 0));
}
static PyMethodDef methods[] = {
    {"wait_any", wait_any, METH_VARARGS, NULL}, {"peek", peek, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
