"""What happened when, from recorded events."""
