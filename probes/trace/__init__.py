<<<<<<< HEAD
"""Where the time of a running process goes."""
=======
"""Where time and locks go in a running program: profiles, samples, stalls."""
>>>>>>> w/trace
