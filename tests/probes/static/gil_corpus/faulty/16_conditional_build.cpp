// The guard is there in one build only.
#include <pybind11/pybind11.h>
namespace py = pybind11;
int drain_queue(int fd) {
#ifdef WITH_GIL_RELEASE
    py::gil_scoped_release release;
#endif
    struct epoll_event events[8];
    return epoll_wait(fd, events, 8, -1);  // FAULT drain_queue wait-with-gil
}
PYBIND11_MODULE(ext, m) { m.def("drain_queue", &drain_queue); }
