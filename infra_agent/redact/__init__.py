"""Secrets: which values are some, the forms they travel in, and how they are masked before they are stored or shown."""
