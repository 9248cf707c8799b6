"""One answer on its way: events at absolute moments, and whatever fault the script wants.

Covered: token times from an absolute plan, one write per event or several, faults in the middle of a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

from probes.load.mock import events
from probes.load.mock.prompt import is_chat, seed_of, text_of
from probes.load.mock.script import Script
from probes.load.mock.truth import Served
from probes.load.wire.loop import Loop

GOLDEN = 0.6180339887498949
HEADS = {
    "chunked": b"transfer-encoding: chunked\r\n",
    "close": b"",
}


class Peer(Protocol):
    """The connection that an answer is written to."""

    def write(self, data: bytes) -> None:
        """Send now or as soon as the kernel takes it."""

    def close_after_writing(self) -> None:
        """Close once everything was sent."""

    def reset(self) -> None:
        """Close with a reset."""

    def answered(self) -> None:
        """This request is over; the next may come."""


class Stream:
    """Writes one streamed answer. `begin` starts the clock; `on_end` is called once."""

    def __init__(
        self,
        loop: Loop,
        peer: Peer,
        script: Script,
        served: Served,
        body: dict[str, Any],
        counts: tuple[int, int | None],
        instant: bool,
        on_end: Callable[[], None],
    ) -> None:
        self._loop, self._peer, self._script, self._served = loop, peer, script, served
        self._body, self._on_end = body, on_end
        self._prompt_tokens, self._cached = counts
        self._instant = instant
        self._chat = is_chat(body)
        asked = body.get("max_completion_tokens") or body.get("max_tokens")
        self._plan = script.chunk_plan(asked if isinstance(asked, int) else None)
        text = text_of(body) if script.answers != "canned" else ""
        self._words = events.words(seed_of(text), len(self._plan))
        self._index = 0
        self._sent_tokens = 0
        self._first = True
        self._over = False

    def begin(self, start_s: float) -> None:
        """Write the head and the role chunk; the first token is due after `start_s`."""
        script = self._script
        prefill_s = script.prefill_s_per_token * (self._prompt_tokens - (self._cached or 0))
        wait_s = script.first_token_s + script.spread_s * (self._served.number * GOLDEN % 1.0) + prefill_s
        self._due_s = start_s + (0.0 if self._instant else wait_s)
        self._head()
        if script.role_chunk and self._chat:
            self._event(events.closed(events.delta_event(script.model, self._chat, "role", "", None)))
        self._loop.at(self._due_s, self._chunk)

    def stop(self) -> None:
        """The client is gone."""
        self._end()

    def _head(self) -> None:
        framing = self._length() if self._script.framing == "length" else HEADS[self._script.framing]
        kept = b"" if self._script.keep_alive else b"connection: close\r\n"
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n" + framing + kept
        if self._script.fault == "two lengths":
            head += b"content-length: 5\r\ncontent-length: 6\r\n"
        if self._script.fault == "endless head":
            head += b"x-more: " + b"a" * 80_000
        self._peer.write(head + b"\r\n")

    def _length(self) -> bytes:
        """The length of everything that will come, found by making it once."""
        size = sum(len(piece) for piece in self._everything())
        return f"content-length: {size}\r\n".encode()

    def _everything(self) -> Iterator[bytes]:
        script, sent = self._script, 0
        if script.role_chunk and self._chat:
            yield events.closed(events.delta_event(script.model, self._chat, "role", "", None))
        for index, tokens in enumerate(self._plan):
            sent += tokens
            yield self._content(index, sent)
        yield from self._tail()

    def _chunk(self) -> None:
        if self._over:
            return
        script, index = self._script, self._index
        if script.fault != "none" and index == script.fault_after_chunks and self._misbehave():
            return
        self._sent_tokens += self._plan[index]
        served = self._served
        data = self._content(index, self._sent_tokens)
        served.chunk_times_s.append(self._loop.clock())
        self._event(data)
        served.chunk_tokens.append(self._plan[index])
        served.chunk_kinds.append(self._kind(index))
        self._index += 1
        if self._index < len(self._plan):
            self._due_s += 0.0 if self._instant else script.gap_s
            self._loop.at(self._due_s, self._chunk)
        elif script.usage_delay_s:
            self._loop.at(self._loop.clock() + script.usage_delay_s, self._finish)
        else:
            self._finish()

    def _kind(self, index: int) -> str:
        if index < self._script.reasoning_chunks:
            return "reasoning"
        return "tool" if index >= len(self._plan) - self._script.tool_chunks else "content"

    def _content(self, index: int, sent: int) -> bytes:
        script, last = self._script, index == len(self._plan) - 1
        kind = self._kind(index)
        key = script.reasoning_key if kind == "reasoning" else kind
        finish = script.finish_reason if last and not script.finish_chunk else None
        event = events.delta_event(script.model, self._chat, key, self._words[index], finish)
        extra: dict[str, Any] = {}
        if script.usage == "every chunk" or (script.usage == "with last chunk" and last):
            extra["usage"] = self._usage(sent)
        if script.huge_bytes and index == len(self._plan) // 2:
            extra["padding"] = "x" * script.huge_bytes
        return events.closed(event, extra)

    def _usage(self, sent: int) -> dict[str, Any]:
        claimed = self._script.tokens_claimed
        return events.usage(self._prompt_tokens, sent if claimed is None else claimed, self._cached)

    def _tail(self) -> Iterator[bytes]:
        script = self._script
        if script.finish_chunk:
            yield events.closed(events.delta_event(script.model, self._chat, "content", "", script.finish_reason))
        options = self._body.get("stream_options")
        asked = isinstance(options, dict) and bool(options.get("include_usage"))
        counts = b""
        if script.usage in ("when asked", "every chunk") and asked:
            counts = events.usage_event(script.model, self._chat, self._usage(sum(self._plan)))
        if counts and script.ending != "usage after done":
            yield counts
        if script.ending != "no done":
            yield events.DONE
        if script.ending == "done twice":
            yield events.DONE
        if counts and script.ending == "usage after done":
            yield counts

    def _finish(self) -> None:
        if self._over:
            return
        for event in self._tail():
            self._event(event)
        self._served.complete = True
        if self._script.ending == "open after done":
            return
        if self._script.framing == "chunked":
            self._peer.write(b"0\r\n\r\n")
        self._end()
        if self._script.framing == "close" or not self._script.keep_alive:
            self._peer.close_after_writing()
        else:
            self._peer.answered()

    def _misbehave(self) -> bool:
        """Whether the fault ends the ordinary stream."""
        fault = self._script.fault
        if fault == "pause":
            self._script = replace(self._script, fault="none")
            self._due_s = self._loop.clock() + self._script.pause_s
            self._loop.at(self._due_s, self._chunk)
        elif fault == "stall":
            pass
        elif fault == "drop":
            self._end()
            self._peer.close_after_writing()
        elif fault == "reset":
            self._end()
            self._peer.reset()
        elif fault == "bad chunk":
            self._peer.write(b"this is no size\r\n")
        elif fault in ("error event", "cut"):
            if fault == "error event":
                self._event(events.error_event())
            self._peer.write(b"0\r\n\r\n")
            self._end()
            self._peer.answered()
        else:
            return False
        return True

    def _event(self, event: bytes) -> None:
        script = self._script
        dressed = events.dress(script, event, self._first)
        self._first = False
        for piece in events.pieces(script, dressed):
            self._peer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if script.framing == "chunked" else piece)

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._served.ended_s = self._loop.clock()
            self._on_end()
