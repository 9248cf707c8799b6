// Dispatch between ranks: sizes are asked for in shared memory and waited for on the host.
//
// Two routes, as expert-parallel libraries have them. Both poll counters that another process writes.
#include <pybind11/pybind11.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace py = pybind11;

namespace kv {

constexpr int kMaxRanks = 8;
constexpr double kTimeoutSeconds = 100.0;

struct Mailbox {
    volatile int64_t request;
    volatile int64_t tokens;
    volatile int64_t received[kMaxRanks];
};

class Buffer {
public:
    Buffer(const std::string& path, int ranks) : ranks_(ranks) {
        if (ranks < 1 or ranks > kMaxRanks) throw std::invalid_argument("ranks is 1 to 8");
        int file = ::open(path.c_str(), O_RDWR);
        if (file < 0) throw std::runtime_error("cannot open " + path);
        void* memory = ::mmap(nullptr, sizeof(Mailbox), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        ::close(file);
        if (memory == MAP_FAILED) throw std::runtime_error("cannot map " + path);
        mailbox_ = static_cast<Mailbox*>(memory);
    }

    ~Buffer() { ::munmap(mailbox_, sizeof(Mailbox)); }

    int64_t intranode_dispatch(int64_t tokens) {
        post(tokens);

        // Wait for the sizes of all ranks
        int64_t total = 0;
        auto start = std::chrono::steady_clock::now();
        while (true) {
            bool ready = true;
            total = 0;
            for (int i = 0; i < ranks_; ++i) {
                int64_t count = mailbox_->received[i];
                ready &= count >= 0;
                total += count;
            }
            if (ready) break;
            check_timeout(start);
        }
        return total;
    }

    int64_t internode_dispatch(int64_t tokens) {
        // The sizes may take long: let other Python threads run meanwhile.
        py::gil_scoped_release release;
        post(tokens);
        auto start = std::chrono::steady_clock::now();
        while (not arrived()) check_timeout(start);
        return sum();
    }

    int64_t combine(int64_t tokens) const {
        int64_t kept = 0;
        for (int i = 0; i < ranks_; ++i) kept += tokens / ranks_;
        return kept;
    }

private:
    void post(int64_t tokens) {
        for (int i = 0; i < ranks_; ++i) mailbox_->received[i] = -1;
        mailbox_->tokens = tokens;
        __sync_synchronize();
        mailbox_->request = mailbox_->request + 1;
    }

    bool arrived() const {
        for (int i = 0; i < ranks_; ++i)
            if (mailbox_->received[i] < 0) return false;
        return true;
    }

    int64_t sum() const {
        int64_t total = 0;
        for (int i = 0; i < ranks_; ++i) total += mailbox_->received[i];
        return total;
    }

    static void check_timeout(std::chrono::steady_clock::time_point start) {
        std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
        if (waited.count() > kTimeoutSeconds) throw std::runtime_error("dispatch: no sizes from the other ranks");
    }

    int ranks_;
    Mailbox* mailbox_ = nullptr;
};

}  // namespace kv

PYBIND11_MODULE(kv_wire, m) {
    m.doc() = "Dispatch between ranks over shared memory";
    py::class_<kv::Buffer>(m, "Buffer")
        .def(py::init<const std::string&, int>(), py::arg("path"), py::arg("ranks"))
        .def("intranode_dispatch", &kv::Buffer::intranode_dispatch, py::arg("tokens"))
        .def("internode_dispatch", &kv::Buffer::internode_dispatch, py::arg("tokens"))
        .def("combine", &kv::Buffer::combine, py::arg("tokens"));
}
