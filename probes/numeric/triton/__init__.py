"""Triton kernels on the CPU with the matrix arithmetic of a graphics card, and what each `tl.dot` of them does."""
