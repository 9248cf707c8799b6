// Progress from the middle of the released region, with the GIL taken back for it.
#include <pybind11/pybind11.h>
auto copy_all(std::vector<int> const& from, pybind11::object const& progress) -> std::size_t
{
    std::size_t done{};
    {
        pybind11::gil_scoped_release nogil{};
        for (auto const fd : from)
        {
            fsync(fd);
            ++done;
            if (done % 64 == 0)
            {
                pybind11::gil_scoped_acquire gil{};
                progress(done, from.size());
            }
        }
    }
    return done;
}
PYBIND11_MODULE(copier, m) { m.def("copy_all", &copy_all); }
