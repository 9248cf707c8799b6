"""Run by HolisticTraceAnalysis' own interpreter: parse one trace and make the breakdowns that ours makes too."""

from __future__ import annotations

import json
import resource
import sys
import time

from hta.trace_analysis import TraceAnalysis


def main() -> None:
    """Print times and memory as JSON."""
    began_s, cpu_s = time.perf_counter(), _cpu_s()
    analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="", include_last_profiler_step=True)
    parsed_s = time.perf_counter()
    events = len(analysis.t.get_trace(0))
    analysis.get_temporal_breakdown(visualize=False)
    analysis.get_gpu_kernel_breakdown(visualize=False)
    analysis.get_comm_comp_overlap(visualize=False)
    analysis.get_idle_time_breakdown(ranks=[0], visualize=False)
    ended_s = time.perf_counter()
    kilobytes = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    found = {
        "read_s": parsed_s - began_s,
        "analyse_s": ended_s - parsed_s,
        "wall_s": ended_s - began_s,
        "cpu_s": _cpu_s() - cpu_s,
        "peak_bytes": 1024 * kilobytes,
        "events": events,
    }
    sys.stdout.write("\n" + json.dumps(found) + "\n")


def _cpu_s() -> float:
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


if __name__ == "__main__":
    main()
