// Released, taken back for a log line, and never given up again before the second wait.
#include <pybind11/pybind11.h>
namespace py = pybind11;
class Transfer {
    MPI_Request requests_[2];
public:
    void complete() {
        PyThreadState* state = PyEval_SaveThread();
        MPI_Wait(&requests_[0], MPI_STATUS_IGNORE);
        PyEval_RestoreThread(state);
        py::print("first half");
        MPI_Wait(&requests_[1], MPI_STATUS_IGNORE);  // FAULT complete wait-with-gil
    }
};
PYBIND11_MODULE(ext, m) { py::class_<Transfer>(m, "Transfer").def("complete", &Transfer::complete); }
