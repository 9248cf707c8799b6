// Property getters: one releases through nb::call_guard, one only asks.
#include <nanobind/nanobind.h>
#include <hip/hip_runtime.h>
namespace nb = nanobind;
struct Timer {
    hipEvent_t end;
    bool finished() const { return hipEventQuery(end) == hipSuccess; }
    void wait() const { (void)hipEventSynchronize(end); }
};
NB_MODULE(timers, m) {
    auto timer = nb::class_<Timer>(m, "Timer");
    timer.def_prop_ro("finished", &Timer::finished);
    timer.def("wait", &Timer::wait, nb::call_guard<nb::gil_scoped_release>());
}
