"""Counts what the programs of a kernel repeat: bytes per operand and operations per grid axis."""
