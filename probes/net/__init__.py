"""Reaching a server that is alone in its own network: by plain TCP, or by a connection handed out of its sandbox."""
