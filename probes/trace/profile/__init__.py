"""Profiles that a program wrote of itself: read, broken down, compared."""
