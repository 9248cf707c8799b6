"""The server: the tools over stdio or streamable HTTP.

Covered: stdout carries the protocol only (the transport takes the descriptor away from everybody else); over HTTP every
request needs the token that the person who started the server was shown, and a host name of this machine.
Not covered: users and rights: whoever holds the pipe or the token is the client.
"""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver.tools import Tool
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from infra_agent import __version__
from infra_agent.mcp.tools import needs_scope

LOOPBACK = "127.0.0.1"
PATH = "/mcp"
INSTRUCTIONS = (
    "Tunes an LLM inference stack by measured experiments. Read runs and reports freely. To act, a person must have "
    "opened a run for this server: measure stock, state a hypothesis with a predicted range and what would refute it, "
    "propose one change citing it, prove what was screened as promote, conclude with a reason per untried family. "
    "Verdicts and risk classes are the harness's; approving a change is a person's, and no tool does it."
)


def build_server(tools: list[Tool]) -> MCPServer[Any]:
    """The server with its tools."""
    server: MCPServer[Any] = MCPServer(
        name="infra-agent", title="infra-agent", instructions=INSTRUCTIONS, version=__version__, tools=tools,
        log_level="WARNING",
    )  # fmt: skip
    return server


def tool_list(tools: list[Tool]) -> list[dict[str, Any]]:
    """The tools as JSON, for people and for tests."""
    return [
        {
            "name": tool.name,
            "title": tool.title,
            "description": tool.description,
            "needs_scope": needs_scope(tool),
            "input_schema": tool.parameters,
            "output_schema": tool.output_schema,
            "annotations": tool.annotations.model_dump(exclude_none=True, by_alias=True) if tool.annotations else {},
        }
        for tool in tools
    ]


def new_token() -> str:
    """A token for one start of the HTTP server."""
    return secrets.token_urlsafe(32)


def serve_http(server: MCPServer[Any], token: str, port: int, started: Callable[[str], None]) -> None:
    """Serve on the loopback interface until stopped; `started` is told the address."""
    hosts = [f"{name}:*" for name in (LOOPBACK, "localhost", "[::1]")]
    security = TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts])
    app = server.streamable_http_app(streamable_http_path=PATH, transport_security=security)
    with socket.create_server((LOOPBACK, port)) as listening:
        started(f"http://{LOOPBACK}:{listening.getsockname()[1]}{PATH}")
        config = uvicorn.Config(Guarded(app, token), log_config=None, access_log=False, lifespan="on")
        uvicorn.Server(config).run(sockets=[listening])


class Guarded:
    """Lets requests with the right token through."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and not self._may(scope):
            logging.getLogger(__name__).warning("a request without the token was refused")
            refused = JSONResponse({"error": "the token is missing or wrong"}, status_code=401)
            await refused(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _may(self, scope: Scope) -> bool:
        given = dict(scope["headers"]).get(b"authorization", b"")
        return secrets.compare_digest(given, b"Bearer " + self._token)
