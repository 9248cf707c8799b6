"""Probes of one kernel or one function."""
