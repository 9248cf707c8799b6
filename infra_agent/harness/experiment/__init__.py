"""Runs a stack that is an experiment: one process, one result document, figures with repeats."""
