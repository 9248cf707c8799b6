// Array memory is read in the released region; no reference is counted there. value_error needs no GIL.
#include <pybind11/numpy.h>
namespace py = pybind11;
double energy(py::array_t<double, py::array::c_style> x) {
    py::buffer_info info = x.request();
    const double* data = static_cast<const double*>(info.ptr);
    double sum = 0;
    {
        py::gil_scoped_release release;
        if (info.size == 0) throw py::value_error("empty");
        for (py::ssize_t i = 0; i < info.size; ++i) sum += data[i] * data[i];
        sum += x.data()[0] * 0 + x.size() * 0;
    }
    return sum;
}
PYBIND11_MODULE(ext, m) { m.def("energy", &energy); }
