"""Reads playbooks (and later skills)."""
