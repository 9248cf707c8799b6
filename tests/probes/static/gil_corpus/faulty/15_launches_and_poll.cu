// A loop of launches fills the queue; a query is polled until the device is done.
#include <pybind11/pybind11.h>
#include <cuda_runtime.h>
__global__ void step(float* x, int n) { while (n-- > 0) x[n] *= 2.f; }
void run(std::uintptr_t x, int n, int steps) {
    for (int i = 0; i < steps; ++i) {
        step<<<dim3(n / 256 + 1), 256, 0, 0>>>(reinterpret_cast<float*>(x), n);  // FAULT run wait-with-gil
    }
}
void settle(std::uintptr_t event) {
    auto raw = reinterpret_cast<cudaEvent_t>(event);
    while (cudaEventQuery(raw) == cudaErrorNotReady) {  // FAULT settle wait-with-gil
        std::this_thread::yield();
    }
}
void one(std::uintptr_t x, int n) { step<<<n, 256>>>(reinterpret_cast<float*>(x), n); }
PYBIND11_MODULE(ext, m) {
    m.def("run", &run);
    m.def("settle", &settle);
    m.def("one", &one);
}
