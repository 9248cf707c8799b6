"""What leaves a run: the report."""
