"""Finds out what kind of profile a file is, and reads it.

Covered: Chrome traces (PyTorch), Perfetto traces, speedscope files, collapsed stacks (both of py-spy), cProfile files;
each of them plain or packed. Not covered: Nsight and rocprof databases.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from probes.trace.profile.chrome import read_chrome
from probes.trace.profile.columns import Trace
from probes.trace.profile.samples import FrameProfile, read_collapsed, read_pstats, read_speedscope
from probes.trace.profile.source import Source, UnreadableTrace, opened

Form = Literal["chrome", "perfetto", "speedscope", "collapsed", "cprofile"]
HEAD = 65536
LARGEST_WHOLE = 512 * 2**20
"""Recordings of frames are small; traces are read in pieces and have no such limit."""
_COLLAPSED = re.compile(rb"^[^\n\x00{}]+ \d+\r?\n")
_MARSHALLED = (b"{(", b"{\xa9", b"{)", b"\xfb")


def read(path: Path) -> Trace | FrameProfile:
    """The profile in the file. UnreadableTrace says what it is instead, or what it lacks."""
    with opened(path) as source:
        form = form_of(source)
        if form == "chrome":
            return read_chrome(source)
        if form == "perfetto":
            from probes.trace.profile.perfetto import read_perfetto

            return read_perfetto(source)
        whole = _whole(source)
        if form == "speedscope":
            return read_speedscope(whole, path, source.trouble)
        return read_collapsed(whole) if form == "collapsed" else read_pstats(whole, path)


def _whole(source: Source) -> bytes:
    """All bytes of a form that cannot be read in pieces."""
    held = bytearray()
    for piece in source.pieces():
        held += piece
        if len(held) > LARGEST_WHOLE:
            raise UnreadableTrace(f"{source.path} is larger than {LARGEST_WHOLE >> 20} MiB: record for a shorter time")
    return bytes(held)


def form_of(source: Source) -> Form:
    """What the first bytes say."""
    head = source.peek(HEAD)
    bare = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if head[:2] in _MARSHALLED or head[:1] == b"\xfb":
        return "cprofile"
    if b"speedscope.app" in head and bare[:1] == b"{":
        return "speedscope"
    if bare[:1] in (b"{", b"["):
        return "chrome"
    if head[:1] == b"\x0a" and not head[:64].isascii() or head[:1] == b"\x0a" and b"\0" in head[:64]:
        return "perfetto"
    if _COLLAPSED.match(bare):
        return "collapsed"
    raise UnreadableTrace(
        f"{source.path} is none of the profiles that are known here (it begins with {head[:24]!r}); "
        "give a PyTorch or Chrome trace, a Perfetto trace, a py-spy recording or a cProfile file"
    )
