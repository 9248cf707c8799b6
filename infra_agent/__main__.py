"""`python -m infra_agent` is the command `infra-agent`."""

from __future__ import annotations

from infra_agent.cli.main import main

if __name__ == "__main__":
    main()
