"""The harness as tools for other people's agents: the same actions, read-only unless a person opened one run."""
