// The same spin as in the faulty file, with the GIL released at the top.
#include <pybind11/pybind11.h>
namespace py = pybind11;
struct Exchange {
    volatile int* counter = nullptr;
    int dispatch(int tokens) {
        py::gil_scoped_release release;
        while (*counter < 0) {
        }
        return *counter + tokens;
    }
};
PYBIND11_MODULE(ext, m) { py::class_<Exchange>(m, "Exchange").def("dispatch", &Exchange::dispatch); }
