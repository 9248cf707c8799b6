// A property getter that synchronises, on a class bound in a helper function with a local variable.
#include <nanobind/nanobind.h>
#include <hip/hip_runtime.h>
namespace nb = nanobind;
struct Timer {
    hipEvent_t begin, end;
    [[nodiscard]] float elapsed() const {
        float ms = 0.f;
        static_cast<void>(hipEventSynchronize(end));  // FAULT elapsed wait-with-gil
        static_cast<void>(hipEventElapsedTime(&ms, begin, end));
        return ms;
    }
};
static void bind(nb::module_& m) {
    auto timer = nb::class_<Timer>(m, "Timer");
    timer.def(nb::init<>());
    timer.def_prop_ro("elapsed", &Timer::elapsed);
}
NB_MODULE(timers, m) { bind(m); }
