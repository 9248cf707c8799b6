"""Compiles Triton kernels for graphics cards that are not there and tells what they need of them."""
