// Python drops the last reference with the GIL held; the worker needs it to end.
#include <pybind11/pybind11.h>
#include <thread>
namespace py = pybind11;
class Worker {
public:
    Worker() : thread_([this] { run(); }) {}
    ~Worker() {
        stop_ = true;
        if (thread_.joinable()) thread_.join();  // FAULT Worker.__del__ wait-with-gil
    }
    int done() const { return done_; }
private:
    void run();
    std::atomic<bool> stop_{false};
    int done_ = 0;
    std::thread thread_;
};
PYBIND11_MODULE(ext, m) {
    py::class_<Worker>(m, "Worker").def(py::init<>()).def("done", &Worker::done);
}
