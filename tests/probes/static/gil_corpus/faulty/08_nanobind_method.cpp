// nanobind, bound through a chain; the queue is popped with a condition variable.
#include <nanobind/nanobind.h>
namespace nb = nanobind;
class Queue {
public:
    int pop() {
        std::unique_lock lk(mutex_);
        while (items_.empty()) cv_.wait(lk);  // FAULT pop wait-with-gil
        int item = items_.front();
        items_.pop_front();
        return item;
    }
    void push(int item) {
        std::lock_guard lk(mutex_);
        items_.push_back(item);
        cv_.notify_one();
    }
private:
    std::mutex mutex_;
    std::condition_variable cv_;
    std::deque<int> items_;
};
NB_MODULE(ext, m) {
    nb::class_<Queue>(m, "Queue")
        .def(nb::init<>())
        .def("push", &Queue::push)
        .def("pop", &Queue::pop);
}
