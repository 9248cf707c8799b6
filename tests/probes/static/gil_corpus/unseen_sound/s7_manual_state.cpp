// SaveThread and RestoreThread by hand, early return included; a sleep of a few microseconds is no wait.
#include <Python.h>
#include <pybind11/pybind11.h>
int settle(int pid, bool quick) {
    int status = 0;
    PyThreadState *saved = PyEval_SaveThread();
    if (quick) {
        PyEval_RestoreThread(saved);
        return -1;
    }
    ::waitpid(pid, &status, 0);
    PyEval_RestoreThread(saved);
    return status;
}
void backoff() { std::this_thread::sleep_for(std::chrono::microseconds(5)); }
PYBIND11_MODULE(m, mod) { mod.def("settle", &settle); mod.def("backoff", &backoff); }
