// A helper takes the function and runs it without the GIL.
#include <pybind11/pybind11.h>
namespace py = pybind11;
template <typename F>
auto unlocked(F&& f) {
    py::gil_scoped_release release;
    return f();
}
int settle(int fd) {
    return unlocked([&] {
        char byte;
        return static_cast<int>(::read(fd, &byte, 1));
    });
}
PYBIND11_MODULE(ext, m) { m.def("settle", &settle); }
