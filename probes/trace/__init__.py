"""Where the time of a running process goes."""
