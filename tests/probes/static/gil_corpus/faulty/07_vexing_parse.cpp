// `release()` declares a function: nothing is released.
#include <pybind11/pybind11.h>
#include <future>
struct Job {
    std::future<int> result;
};
int finish(Job& job) {
    pybind11::gil_scoped_release release();
    return job.result.get();  // FAULT finish wait-with-gil
}
PYBIND11_MODULE(ext, m) {
    pybind11::class_<Job>(m, "Job");
    m.def("finish", finish);
}
