// The opposite fault: the list is filled where the GIL has been given away.
#include <pybind11/pybind11.h>
namespace py = pybind11;
void drain(int fd);
py::list drained(int fd, int n) {
    py::list out;
    {
        py::gil_scoped_release release;
        drain(fd);
        for (int i = 0; i < n; ++i) {
            out.append(i);  // FAULT drained python-without-gil
        }
    }
    return out;
}
PYBIND11_MODULE(ext, m) { m.def("drained", &drained); }
