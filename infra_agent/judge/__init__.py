"""Blocks, estimates and three-way decisions."""

RULES_VERSION = "2"
"""Changes with every rule that changes a figure or a decision; stored noise floors are bound to it."""
