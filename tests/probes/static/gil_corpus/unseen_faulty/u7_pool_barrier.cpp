// A thread pool's barrier behind a pimpl; the pool's own threads sound like waits but are not Python's.
#include <pybind11/pybind11.h>
#include <barrier>
#include <latch>
class Pool {
    struct Impl;
    std::unique_ptr<Impl> impl;
public:
    explicit Pool(int n);
    void run_all();
    int size() const;
};
struct Pool::Impl {
    std::vector<std::thread> threads;
    std::latch done{1};
    std::condition_variable wake;
    std::mutex m;
    void loop() { for (;;) { std::unique_lock l(m); wake.wait(l); } }
};
Pool::Pool(int n) : impl(new Impl) {
    for (int i = 0; i < n; ++i) impl->threads.emplace_back([this] { impl->loop(); });
}
void Pool::run_all() {
    impl->wake.notify_all();
    impl->done.wait();  // FAULT run_all wait-with-gil
}
int Pool::size() const { return static_cast<int>(impl->threads.size()); }
PYBIND11_MODULE(pool, m) {
    pybind11::class_<Pool> pool(m, "Pool");
    pool.def(pybind11::init<int>(), pybind11::arg("n"));
    pool.def("run_all", &Pool::run_all).def("__len__", &Pool::size);
}
