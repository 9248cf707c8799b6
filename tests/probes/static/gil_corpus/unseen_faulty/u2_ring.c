/* Kernel style C: a shared ring, a bounded spin and then an endless one. */
#include <Python.h>
#include <stdatomic.h>
struct ring { _Atomic unsigned head; _Atomic unsigned tail; unsigned char *slots; };
static struct ring *the_ring;

static inline unsigned wait_slot(struct ring *r, unsigned want)
{
	unsigned seen;
	int spins;

	for (spins = 0; spins < 64; spins++) {
		seen = atomic_load_explicit(&r->head, memory_order_acquire);
		if (seen != want)
			return seen;
	}
	for (;;) { /* FAULT get wait-with-gil */
		seen = atomic_load_explicit(&r->head, memory_order_acquire);
		if (seen != want)
			break;
	}
	return seen;
}

static PyObject *ring_get(PyObject *self, PyObject *Py_UNUSED(arg))
{
	unsigned at = wait_slot(the_ring, the_ring->tail);
	return PyLong_FromUnsignedLong(at);
}

static PyObject *ring_size(PyObject *self, PyObject *Py_UNUSED(arg))
{
	return PyLong_FromUnsignedLong(the_ring->head - the_ring->tail);
}

static PyMethodDef ring_methods[] = {
	{ .ml_name = "get", .ml_meth = (PyCFunction)ring_get, .ml_flags = METH_NOARGS, .ml_doc = NULL },
	{ .ml_name = "size", .ml_meth = ring_size, .ml_flags = METH_NOARGS },
	{ 0 },
};
