// The wait stands in a lambda bound in place, the sound one beside it.
#include <pybind11/pybind11.h>
#include <cuda_runtime.h>
namespace py = pybind11;
struct Stream { cudaStream_t raw; };
PYBIND11_MODULE(ext, m) {
    py::class_<Stream> cls(m, "Stream");
    cls.def("flush", [](Stream& self) {
        cudaStreamSynchronize(self.raw);  // FAULT flush wait-with-gil
    });
    cls.def("record", [](Stream& self, std::uintptr_t event) {
        cudaEventRecord(reinterpret_cast<cudaEvent_t>(event), self.raw);
    });
    cls.def("flush_free", [](Stream& self) { cudaStreamSynchronize(self.raw); },
            py::call_guard<py::gil_scoped_release>());
}
