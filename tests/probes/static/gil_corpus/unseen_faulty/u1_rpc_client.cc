// Copyright-style header, Google style: virtual interface, implementation elsewhere in the file.
#include "pybind11/pybind11.h"
#include <future>
namespace rpc {
class Transport {
 public:
  virtual ~Transport() = default;
  virtual auto Call(const std::string& payload) -> std::string = 0;
};
class TcpTransport final : public Transport {
 public:
  auto Call(const std::string& payload) -> std::string override {
    std::future<std::string> reply = Enqueue(payload);
    if (reply.wait_for(std::chrono::seconds(30)) != std::future_status::ready)  // FAULT call wait-with-gil
      throw std::runtime_error("deadline");
    return reply.get();
  }
 private:
  std::future<std::string> Enqueue(const std::string& payload);
};
struct Client {
  std::unique_ptr<Transport> transport;
};
}  // namespace rpc
PYBIND11_MODULE(_rpc, module) {
  namespace py = ::pybind11;
  py::class_<rpc::Client, std::shared_ptr<rpc::Client>>(module, "Client")
      .def("call", [](rpc::Client& client, const std::string& payload) { return client.transport->Call(payload); });
}
