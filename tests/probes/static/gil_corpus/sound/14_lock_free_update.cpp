// A compare-exchange loop recomputes and retries; it waits for nobody. One try is not a loop.
#include <pybind11/pybind11.h>
static std::atomic<long> highest{0};
static std::atomic_flag busy = ATOMIC_FLAG_INIT;
void note(long value) {
    long seen = highest.load();
    while (seen < value && !highest.compare_exchange_weak(seen, value)) {
    }
}
bool try_enter() { return !busy.test_and_set(); }
int spin_a_little() {
    for (int i = 0; i < 100; ++i) {
        if (!busy.test()) return i;
        __builtin_ia32_pause();
    }
    return -1;
}
PYBIND11_MODULE(ext, m) {
    m.def("note", &note);
    m.def("try_enter", &try_enter);
    m.def("spin_a_little", &spin_a_little);
}
