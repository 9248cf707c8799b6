// call_guard at the binding and a guard in the body: the second release aborts the process.
#include <pybind11/pybind11.h>
namespace py = pybind11;
static void push(int socket, std::string_view bytes) {
    py::gil_scoped_release inner;  // FAULT push python-without-gil
    for (std::size_t sent = 0; sent < bytes.size();)
        sent += ::send(socket, bytes.data() + sent, bytes.size() - sent, 0);
}
PYBIND11_MODULE(pusher, m) {
    m.def("push", &push, py::arg("socket"), py::arg("bytes"), py::call_guard<py::gil_scoped_release>());
}
