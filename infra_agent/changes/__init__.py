"""Reversible changes and the candidates built from them."""
