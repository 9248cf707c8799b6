// Progress is reported to Python from the middle of the released region.
#include <pybind11/pybind11.h>
#include <pybind11/functional.h>
auto copy_all(std::vector<int> const& from, pybind11::object const& progress) -> std::size_t
{
    std::size_t done{};
    auto const total = from.size();
    [&] {
        pybind11::gil_scoped_release nogil{};
        for (auto const fd : from)
        {
            fsync(fd);
            progress(++done, total);  // FAULT copy_all python-without-gil
        }
    }();
    return done;
}
PYBIND11_MODULE(copier, m) { m.def("copy_all", &copy_all); }
