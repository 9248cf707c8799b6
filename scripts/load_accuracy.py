"""Is the load client exact on this machine? Run it when the machine is quiet.

700 evenly spaced requests at 100 per second on the mock server, each request compared with what the server did: the
rate is kept within 1 %, and one in a hundred times to first token is off by at most 2 ms. Exit 1 when not.
"""

from __future__ import annotations

import sys

from probes.base import Verdict, Where
from probes.load.arrivals import Constant
from probes.load.mock import truth
from probes.load.mock.process import MockProcess
from probes.load.mock.script import Script
from probes.load.probe import run
from probes.load.summary import nearest_rank
from probes.load.types import LoadRequest, Prompt

RATE_PER_S, REQUESTS = 100.0, 700
RATE_SHARE, OFF_S = 0.01, 0.002


def main() -> int:
    """Measure and compare."""
    with MockProcess() as mock:
        mock.play(Script(first_token_s=0.05, gap_s=0.01, chunks=(1,) * 10, keep_bodies=False))
        request = LoadRequest(
            base_url=mock.url, model="mock", prompts=(Prompt.of("say something"),), arrivals=Constant(RATE_PER_S),
            requests=REQUESTS, max_tokens=10, warmup_requests=0,
        )  # fmt: skip
        observation, result = run(request, where=Where(whole_system=True))
        served = mock.truth()
    if observation.verdict is not Verdict.PASS:
        print(observation.summary)
        return 1
    records = sorted(result.records, key=lambda record: record.sent_s)
    off_s = [
        abs((record.first_token_s or 0.0) - record.sent_s - truth.ttft_s(row))
        for record, row in zip(records, served, strict=True)
    ]
    rate = (REQUESTS - 1) / (records[-1].sent_s - records[0].sent_s)
    p99_s = nearest_rank(sorted(off_s), 99)
    print(f"asked {RATE_PER_S:g}/s, sent {rate:.3f}/s; TTFT off by {1e3 * p99_s:.3f} ms (p99), ", end="")
    print(f"{1e3 * nearest_rank(sorted(off_s), 50):.3f} ms (p50)")
    return 0 if abs(rate / RATE_PER_S - 1) <= RATE_SHARE and p99_s <= OFF_S else 1


if __name__ == "__main__":
    sys.exit(main())
