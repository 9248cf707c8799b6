// Python objects before and after the released region, none inside; the callback takes the GIL back.
#include <pybind11/pybind11.h>
namespace py = pybind11;
py::dict gather(py::list fds, py::function on_block) {
    std::vector<int> raw;
    for (auto fd : fds) raw.push_back(fd.cast<int>());
    std::vector<long> got(raw.size());
    {
        py::gil_scoped_release release;
        for (std::size_t i = 0; i < raw.size(); ++i) {
            char block[4096];
            got[i] = ::recv(raw[i], block, sizeof block, 0);
            py::gil_scoped_acquire acquire;
            on_block(got[i]);
        }
    }
    py::dict out;
    for (std::size_t i = 0; i < raw.size(); ++i) out[py::int_(raw[i])] = got[i];
    return out;
}
PYBIND11_MODULE(ext, m) { m.def("gather", &gather); }
