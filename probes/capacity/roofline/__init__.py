"""Bytes and operations of a kernel or a model step against what a machine can do: which resource binds, how far off."""
