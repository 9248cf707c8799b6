// The writer thread blocks on its queue and on the disk; the bound methods hand work over and return.
#include <pybind11/pybind11.h>
class Writer {
    std::thread worker;
    std::deque<std::string> queue;
    std::mutex guard;
    std::condition_variable more;
    bool closed = false;
    void drain() {
        std::unique_lock lock(guard);
        for (;;) {
            more.wait(lock, [this] { return closed || !queue.empty(); });
            if (queue.empty()) return;
            auto item = std::move(queue.front());
            queue.pop_front();
            lock.unlock();
            ::write(1, item.data(), item.size());
            lock.lock();
        }
    }
public:
    void open() { worker = std::thread(&Writer::drain, this); }
    void put(std::string item) {
        std::lock_guard lock(guard);
        queue.push_back(std::move(item));
        more.notify_one();
    }
    void close() {
        { std::lock_guard lock(guard); closed = true; }
        more.notify_one();
        pybind11::gil_scoped_release release;
        worker.join();
    }
};
PYBIND11_MODULE(writer, m) {
    pybind11::class_<Writer>(m, "Writer").def(pybind11::init<>())
        .def("open", &Writer::open).def("put", &Writer::put).def("close", &Writer::close);
}
