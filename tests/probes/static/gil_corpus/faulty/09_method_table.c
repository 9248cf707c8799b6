/* CPython API: one function of the table allows threads, the other does not. */
#include <Python.h>
#include <unistd.h>
static PyObject* wait_readable(PyObject* self, PyObject* args) {
    int fd;
    char byte;
    if (!PyArg_ParseTuple(args, "i", &fd)) return NULL;
    ssize_t got = read(fd, &byte, 1); /* FAULT wait_readable wait-with-gil */
    return PyLong_FromSsize_t(got);
}
static PyObject* wait_writable(PyObject* self, PyObject* args) {
    int fd;
    ssize_t got;
    if (!PyArg_ParseTuple(args, "i", &fd)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    got = write(fd, "x", 1);
    Py_END_ALLOW_THREADS
    return PyLong_FromSsize_t(got);
}
static PyMethodDef methods[] = {
    {"wait_readable", wait_readable, METH_VARARGS, "waits"},
    {"wait_writable", (PyCFunction)wait_writable, METH_VARARGS, "waits"},
    {NULL, NULL, 0, NULL},
};
