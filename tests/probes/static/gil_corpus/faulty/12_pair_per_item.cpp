// A release and a take for every item of a list: the pairs cost more than the copies.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <cuda_runtime.h>
namespace py = pybind11;
void transfer(const std::vector<std::uintptr_t>& from, const std::vector<std::uintptr_t>& to, std::size_t bytes,
              cudaStream_t stream) {
    for (std::size_t i = 0; i < from.size(); ++i) {  // FAULT transfer tiny-releases
        py::gil_scoped_release release;
        cudaMemcpyAsync((void*)to[i], (void*)from[i], bytes, cudaMemcpyDefault, stream);
    }
}
PYBIND11_MODULE(ext, m) { m.def("transfer", &transfer); }
