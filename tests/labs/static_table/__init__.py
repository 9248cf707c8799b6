"""Twenty kernels of a public package: the static probe's figures beside the vendor's tools' on the same binary."""
