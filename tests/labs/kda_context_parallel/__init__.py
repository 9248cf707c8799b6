"""Context parallelism of Kimi Delta Attention: upstream's kernels on eight ranks of one machine without a GPU."""
