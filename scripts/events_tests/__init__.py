"""`make events-tests`."""
