"""Risk classes and the gate."""
