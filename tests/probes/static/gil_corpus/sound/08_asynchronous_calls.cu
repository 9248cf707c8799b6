// Device calls that return at once, and a single launch.
#include <pybind11/pybind11.h>
#include <cuda_runtime.h>
__global__ void scale(float* x) { x[threadIdx.x] *= 2.f; while (x[0] < 0.f) {} }
void submit(std::uintptr_t x, std::uintptr_t y, std::size_t n, std::uintptr_t s) {
    auto stream = reinterpret_cast<cudaStream_t>(s);
    scale<<<1, 32, 0, stream>>>(reinterpret_cast<float*>(x));
    cudaMemcpyAsync((void*)y, (void*)x, n, cudaMemcpyDeviceToHost, stream);
    cudaEvent_t event;
    cudaEventCreate(&event);
    cudaEventRecord(event, stream);
    cudaStreamWaitEvent(stream, event, 0);
}
bool done(std::uintptr_t event) { return cudaEventQuery((cudaEvent_t)event) == cudaSuccess; }
PYBIND11_MODULE(ext, m) { m.def("submit", &submit); m.def("done", &done); }
