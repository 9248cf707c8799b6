"""Probes that predict: bytes, operations and limits, from arithmetic alone."""
