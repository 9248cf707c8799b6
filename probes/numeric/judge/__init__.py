"""Is a function right? Judged in this process; the candidate runs in another one and never sees what is expected."""
