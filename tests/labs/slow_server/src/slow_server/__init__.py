"""A small OpenAI-compatible server for one language model."""
