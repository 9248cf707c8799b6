// The waiting function has no guard of its own: its only caller has one.
#include <pybind11/pybind11.h>
static std::atomic<int> flag;
static void wait_for_peer() {
    while (flag.load() == 0) sched_yield();
}
static int exchange(int n) {
    wait_for_peer();
    return n;
}
int swap_blocks(int n) {
    pybind11::gil_scoped_release unlocked;
    return exchange(n);
}
PYBIND11_MODULE(ext, m) { m.def("swap_blocks", &swap_blocks); }
