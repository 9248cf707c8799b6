"""Times functions and kernels: interleaved, cold and warm, with the work of the timed calls checked."""
