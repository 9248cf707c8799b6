/* Kernel style C; the wait stands between the two macros, errors are raised after them. */
#include <Python.h>
#include <sys/eventfd.h>
static PyObject *ring_wait(PyObject *self, PyObject *arg)
{
	int fd = PyObject_AsFileDescriptor(arg);
	uint64_t count = 0;
	int failed = 0;

	if (fd < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	while (read(fd, &count, sizeof(count)) < 0) {
		if (errno == EINTR)
			continue;
		failed = errno;
		break;
	}
	Py_END_ALLOW_THREADS;
	if (failed) {
		errno = failed;
		return PyErr_SetFromErrno(PyExc_OSError);
	}
	return PyLong_FromUnsignedLongLong(count);
}
static PyMethodDef ring_methods[] = {
	{ .ml_name = "wait", .ml_meth = ring_wait, .ml_flags = METH_O },
	{ 0 },
};
