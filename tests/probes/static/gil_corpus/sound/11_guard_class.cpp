// A guard class of the project's own, around SaveThread and RestoreThread.
#include <Python.h>
#include <pybind11/pybind11.h>
class NoGil {
    PyThreadState* state_;
public:
    NoGil() : state_(nullptr) { state_ = PyEval_SaveThread(); }
    ~NoGil() { PyEval_RestoreThread(state_); }
};
struct Timed { NoGil inner; int started = 0; };
void pause_for(int ms) {
    NoGil free;
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}
void pause_timed(int ms) {
    Timed timed;
    usleep(ms * 1000);
}
PYBIND11_MODULE(ext, m) { m.def("pause_for", &pause_for); m.def("pause_timed", &pause_timed); }
