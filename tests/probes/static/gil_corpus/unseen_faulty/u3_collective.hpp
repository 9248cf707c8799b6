#pragma once
// Header only, templates, a group of ranks behind NCCL and MPI.
#include <torch/extension.h>
#include <mpi.h>
template <typename Scalar>
class Group
{
public:
    explicit Group(int color) : color_{color} {}

    torch::Tensor all_reduce(torch::Tensor x)
    {
        auto flat = x.contiguous().view({-1});
        MPI_Allreduce(MPI_IN_PLACE, flat.data_ptr(), flat.numel(), MPI_FLOAT, MPI_SUM, comm_);  // FAULT all_reduce wait-with-gil
        return flat.view_as(x);
    }
    int rank() const noexcept { return rank_; }

private:
    int color_;
    int rank_ = 0;
    MPI_Comm comm_ = MPI_COMM_WORLD;
};
inline void bind_group(pybind11::module_& m)
{
    using G = Group<float>;
    pybind11::class_<Group<float>>(m, "Group")
        .def(pybind11::init<int>())
        .def_property_readonly("rank", &Group<float>::rank)
        .def("all_reduce", &Group<float>::all_reduce);
}
