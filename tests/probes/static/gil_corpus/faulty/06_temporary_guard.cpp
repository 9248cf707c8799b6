// The guard has no name: it is destroyed at the end of its own statement.
#include <pybind11/pybind11.h>
#include <sys/socket.h>
namespace py = pybind11;
long receive(int fd, std::size_t size) {
    std::vector<char> buffer(size);
    py::gil_scoped_release();
    return ::recv(fd, buffer.data(), size, MSG_WAITALL);  // FAULT receive wait-with-gil
}
PYBIND11_MODULE(ext, m) { m.def("receive", &receive); }
