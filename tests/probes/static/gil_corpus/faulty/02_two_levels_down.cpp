// The exported function looks harmless; the wait is two calls below it.
#include <pybind11/pybind11.h>
#include <atomic>
namespace {
std::atomic<bool> arrived{false};
void spin() {
    while (!arrived.load(std::memory_order_acquire)) {  // FAULT fetch wait-with-gil
        __builtin_ia32_pause();
    }
}
int collect(int n) {
    spin();
    return n + 1;
}
}  // namespace
int fetch(int n) { return n > 0 ? collect(n) : 0; }
PYBIND11_MODULE(ext, m) { m.def("fetch", &fetch, "fetches one block"); }
