"""infra-agent: an autonomous tuning agent for LLM inference stacks."""

__version__ = "0.1.0"
