"""The append-only event ledger and the state folded from it."""
