"""`python -m slow_server --model DIR --port P`."""

from __future__ import annotations

import argparse

import uvicorn

from slow_server.app import make_app
from slow_server.generate import Generator
from slow_server.text import Text


def main() -> None:
    """Load the model, then serve on the loopback interface."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    app = make_app(given.model, Generator(given.model), Text(given.model))
    uvicorn.run(app, host="127.0.0.1", port=given.port, log_level="warning")


if __name__ == "__main__":
    main()
