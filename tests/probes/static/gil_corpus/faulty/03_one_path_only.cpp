// The GIL is released for large messages only; small ones wait with it.
#include <pybind11/pybind11.h>
#include <optional>
namespace py = pybind11;
struct Ring {
    std::condition_variable filled;
    std::mutex lock;
    bool full = false;
    void take(std::size_t bytes) {
        std::optional<py::gil_scoped_release> release;
        if (bytes > 4096) release.emplace();
        std::unique_lock<std::mutex> guard(lock);
        filled.wait(guard, [this] { return full; });  // FAULT take wait-with-gil
    }
};
PYBIND11_MODULE(ext, m) {
    py::class_<Ring>(m, "Ring").def(py::init<>()).def("take", &Ring::take, py::arg("bytes"));
}
