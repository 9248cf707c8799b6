"""A program whose main thread holds the GIL in native code, or in Python code, while another thread wants to work."""

from __future__ import annotations

import ctypes
import sys
import threading
import time

LIBC = ctypes.PyDLL(None) if sys.argv[1] == "held" else ctypes.CDLL(None)


def send() -> None:
    while True:
        time.sleep(0.001)


def hold(seconds: float) -> None:
    if sys.argv[1] == "python":
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            pass
    else:
        LIBC.usleep(int(seconds * 1e6))


threading.Thread(target=send, name="sender", daemon=True).start()
while True:
    hold(0.06)
    time.sleep(0.002)
