"""Local experiments, each usable alone; imports nothing of infra_agent."""
