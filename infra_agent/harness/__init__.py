"""Runs things: sandbox, processes, servers, the ladder and the budget."""
