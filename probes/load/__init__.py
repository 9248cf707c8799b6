"""An exact load client for OpenAI-compatible servers. Start at `probes.load.probe.run` or `python -m probes.load`."""
