"""Inputs that find trouble, and how a failing one is made small."""
