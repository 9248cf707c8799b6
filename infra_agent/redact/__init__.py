"""What must not be seen: secrets are masked, control sequences removed, before anything is stored or shown."""
