"""Blocks, estimates and three-way decisions."""
