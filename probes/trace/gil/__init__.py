"""Who holds Python's GIL, who waits for it, and what it is not: several signals on a running process."""
