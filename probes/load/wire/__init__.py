"""Bytes on sockets with exact times: readiness, timers, connections, HTTP/1.1 framing."""
