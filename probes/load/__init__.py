"""Load on an OpenAI-compatible server."""
