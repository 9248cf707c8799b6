// Methods and functions named wait, read, get, join and select that block on nothing.
#include <pybind11/pybind11.h>
namespace py = pybind11;
struct Waiter { int wait_count = 0; int wait() const { return wait_count; } };
struct Reader { std::string data; char read(std::size_t i) const { return data[i]; } };
static int select(int a, int b) { return a > b ? a : b; }
struct Path { std::string join(const std::string& tail) const { return tail; } };
struct Box { std::shared_ptr<int> p; int* get() const { return p.get(); } };
PYBIND11_MODULE(ext, m) {
    py::class_<Waiter>(m, "Waiter").def("wait", &Waiter::wait);
    py::class_<Reader>(m, "Reader").def("read", &Reader::read);
    py::class_<Path>(m, "Path").def("join", &Path::join);
    py::class_<Box>(m, "Box").def("get", [](const Box& b) { return *b.get(); });
    m.def("select", [](int a, int b) { return select(a, b); });
}
