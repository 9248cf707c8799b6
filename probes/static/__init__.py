"""Facts that need no run."""
