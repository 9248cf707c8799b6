// A host-mapped counter is polled until the peers' sizes arrive; a timeout does not make it short.
#include <pybind11/pybind11.h>
#include <chrono>
namespace py = pybind11;
struct Exchange {
    volatile int* counter = nullptr;
    volatile int* per_expert = nullptr;
    int experts = 0;
    int dispatch(int tokens) {
        *counter = -1;
        auto start = std::chrono::high_resolution_clock::now();
        int received = -1;
        while (true) {  // FAULT dispatch wait-with-gil
            received = static_cast<int>(*counter);
            bool ready = received >= 0;
            for (int i = 0; i < experts and ready; ++i) ready &= per_expert[i] >= 0;
            if (ready) break;
            auto waited = std::chrono::high_resolution_clock::now() - start;
            if (std::chrono::duration_cast<std::chrono::seconds>(waited).count() > 100)
                throw std::runtime_error("timeout");
        }
        return received + tokens;
    }
    int combine(int tokens) { return tokens * 2; }
};
PYBIND11_MODULE(ext, m) {
    py::class_<Exchange>(m, "Exchange").def("dispatch", &Exchange::dispatch).def("combine", &Exchange::combine);
}
