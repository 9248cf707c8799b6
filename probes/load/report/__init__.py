"""A session as one self-contained page."""
