// With call_guard the whole body runs released, the bytes object included.
#include <pybind11/pybind11.h>
namespace py = pybind11;
struct Channel {
    std::string data;
    std::string next();
};
PYBIND11_MODULE(ext, m) {
    py::class_<Channel>(m, "Channel")
        .def(
            "next",
            [](Channel& self) {
                std::string block = self.next();
                return py::bytes(block);  // FAULT next python-without-gil
            },
            py::call_guard<py::gil_scoped_release>());
}
