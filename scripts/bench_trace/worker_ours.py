"""Parse one trace and break it down, in a process of its own."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from probes.trace.profile.breakdown import break_down
from probes.trace.profile.columns import Trace
from probes.trace.profile.read import read


def main() -> None:
    """Print times and memory as JSON."""
    began_s, cpu_s = time.perf_counter(), time.process_time()
    trace = read(Path(sys.argv[1]))
    if not isinstance(trace, Trace):
        sys.exit("not a time line")
    parsed_s = time.perf_counter()
    break_down(trace)
    ended_s = time.perf_counter()
    found = {
        "read_s": parsed_s - began_s,
        "analyse_s": ended_s - parsed_s,
        "wall_s": ended_s - began_s,
        "cpu_s": time.process_time() - cpu_s,
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "events": len(trace),
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
