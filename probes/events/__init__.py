"""What happened at once, derived from the load probe's records. Start at `probes.events.overlap.observe`."""
