// Google style, released through a helper that takes a member pointer.
#include "pybind11/pybind11.h"
#include <future>
namespace rpc {
class Client {
 public:
  std::string Call(const std::string& payload) {
    ::pybind11::gil_scoped_release release_gil;
    return Enqueue(payload).get();
  }
  bool Ready() const { return ready_.load(std::memory_order_relaxed); }
 private:
  std::future<std::string> Enqueue(const std::string& payload);
  std::atomic<bool> ready_{false};
};
}  // namespace rpc
PYBIND11_MODULE(_rpc, module) {
  ::pybind11::class_<rpc::Client>(module, "Client").def("call", &rpc::Client::Call).def("ready", &rpc::Client::Ready);
}
