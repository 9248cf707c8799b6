"""Brains: playbook, search and script."""
