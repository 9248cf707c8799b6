// nanobind with its call_guard, and a lambda with a guard of its own.
#include <nanobind/nanobind.h>
namespace nb = nanobind;
using namespace nb::literals;
struct Signal {
    std::condition_variable cv;
    std::mutex mutex;
    bool set = false;
    void wait() { std::unique_lock lk(mutex); cv.wait(lk, [this] { return set; }); }
};
NB_MODULE(ext, m) {
    nb::class_<Signal>(m, "Signal")
        .def("wait", &Signal::wait, nb::call_guard<nb::gil_scoped_release>())
        .def("wait_twice", [](Signal& s) {
            nb::gil_scoped_release release;
            s.wait();
            s.wait();
        });
}
