"""Attempts to get out of the sandbox, made inside it before every run. Standard library only: they run on their own."""
