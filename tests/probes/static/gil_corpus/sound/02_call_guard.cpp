// call_guard written out, behind an alias, and held in a variable.
#include <pybind11/pybind11.h>
namespace py = pybind11;
using Unlocked = py::gil_scoped_release;
void wait_a(int fd) { char c; ::read(fd, &c, 1); }
void wait_b(int fd) { fsync(fd); }
void wait_c(int pid) { int s; waitpid(pid, &s, 0); }
PYBIND11_MODULE(ext, m) {
    auto unlocked = py::call_guard<py::gil_scoped_release>();
    m.def("wait_a", &wait_a, py::arg("fd"), py::call_guard<py::gil_scoped_release>());
    m.def("wait_b", &wait_b, py::call_guard<Unlocked>(), "flushes");
    m.def("wait_c", &wait_c, unlocked);
}
