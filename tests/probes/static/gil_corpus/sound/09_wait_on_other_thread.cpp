// The loop waits on a thread of its own, which Python never enters.
#include <pybind11/pybind11.h>
#include <thread>
class Pump {
public:
    Pump() : thread_([this] {
        while (!stop_.load()) {
            std::unique_lock<std::mutex> lk(mutex_);
            cv_.wait(lk);
        }
    }) {}
    void stop() { stop_.store(true); cv_.notify_all(); }
    bool running() const { return !stop_.load(); }
    ~Pump() {
        pybind11::gil_scoped_release release;
        stop();
        thread_.join();
    }
private:
    std::atomic<bool> stop_{false};
    std::mutex mutex_;
    std::condition_variable cv_;
    std::thread thread_;
};
PYBIND11_MODULE(ext, m) {
    pybind11::class_<Pump>(m, "Pump").def(pybind11::init<>()).def("stop", &Pump::stop).def("running", &Pump::running);
}
