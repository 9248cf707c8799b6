"""`make bench-trace`."""
