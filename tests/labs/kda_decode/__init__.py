"""A real decode kernel whose value tiles repeat their set-up: found, merged, proved equal, and its gain predicted."""
