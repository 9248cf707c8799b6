"""How large may an error be, and why: derived from the reference's own error, and tested with broken outputs."""
