"""Room for sockets: the number of open files that this process may have, raised while it is needed.

Covered: the soft limit, up to the hard one, put back afterwards. Not covered: raising the hard limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def room_for_sockets(needed: int) -> Iterator[None]:
    """Allow as many open files as the system lets us; ValueError when that cannot be enough."""
    try:
        import resource
    except ImportError:  # not a POSIX system: no such limit
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise ValueError(f"{needed} open sockets are needed, this process may have {hard} (ulimit -Hn)")
    wanted = max(soft, 65536 if hard == resource.RLIM_INFINITY else hard)
    if soft != resource.RLIM_INFINITY and wanted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
