"""Native functions that keep Python's GIL while they wait, found in C++ source without building it."""
