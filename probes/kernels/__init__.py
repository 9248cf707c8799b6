"""What the kernel probes share: workers in the stack's interpreter, kernels found by name, launches seen by tracing."""
