"""The bench of load tools: `make bench-load`."""
