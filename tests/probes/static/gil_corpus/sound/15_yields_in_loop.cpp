// A waiting loop that gives the GIL away in every turn, and optional guards that are always filled.
#include <pybind11/pybind11.h>
namespace py = pybind11;
static std::atomic<bool> ready{false};
bool wait_ready() {
    while (!ready.load()) {
        py::gil_scoped_release release;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}
void wait_all() {
    auto release = std::make_unique<py::gil_scoped_release>();
    while (!ready.load()) sched_yield();
    release.reset();
    py::print("ready");
}
void wait_if_held() {
    if (PyGILState_Check()) {
        py::gil_scoped_release release;
        while (!ready.load()) sched_yield();
    } else {
        while (!ready.load()) sched_yield();
    }
}
PYBIND11_MODULE(ext, m) {
    m.def("wait_ready", &wait_ready);
    m.def("wait_all", &wait_all);
    m.def("wait_if_held", &wait_if_held);
}
