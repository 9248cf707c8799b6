"""What is tuned: infra-agent.toml, engines, the embedded demo stack."""
