"""Command line: one module per noun, no logic."""
