"""Twenty kernels of a public package: the static probe's figures beside those of the vendor's tools on the same binary."""
