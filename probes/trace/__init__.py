"""Where time and locks go in a running program: profiles, samples, stalls."""
