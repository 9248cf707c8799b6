"""What runs on the candidate's side of the wall: scripts that need the standard library and numpy (or torch) only."""
