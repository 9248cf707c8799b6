// Both the guard and the binding hide in macros.
#include <pybind11/pybind11.h>
#define WITHOUT_GIL pybind11::gil_scoped_release without_gil_
#define BIND(cls, method) .def(#method, &cls::method)
class Link {
    int fd_ = 0;
public:
    void flush() { WITHOUT_GIL; fsync(fd_); }
    long take(std::size_t n) { WITHOUT_GIL; std::string b(n, ' '); return ::recv(fd_, &b[0], n, 0); }
};
PYBIND11_MODULE(ext, m) {
    pybind11::class_<Link>(m, "Link") BIND(Link, flush) BIND(Link, take);
}
