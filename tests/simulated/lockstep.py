"""Windows of an engine that decodes in lock step: records made from the silences between its steps."""

from __future__ import annotations

from collections.abc import Sequence

from probes.load.types import Closed, LoadRequest, Prompt, RequestRecord


def window(silences_s: Sequence[float], *, concurrency: int = 4, tokens: int = 32) -> tuple[RequestRecord, ...]:
    """Rounds of `concurrency` requests; each silence ends with one token for every request of the round."""
    records: list[RequestRecord] = []
    now_s = 0.0
    for start in range(0, len(silences_s), tokens):
        sent_s, times_s = now_s, []
        for silence_s in silences_s[start : start + tokens]:
            now_s += silence_s
            times_s.append(now_s)
        for _ in range(concurrency):
            records.append(
                RequestRecord(
                    id=len(records),
                    scheduled_s=sent_s,
                    sent_s=sent_s,
                    end_s=now_s,
                    first_token_s=times_s[0],
                    first_answer_s=times_s[0],
                    last_token_s=now_s,
                    chunk_times_s=tuple(times_s),
                    output_tokens=len(times_s),
                    prompt_tokens=10,
                    finish_reason="length",
                )
            )
    return tuple(records)


def asked(records: Sequence[RequestRecord], concurrency: int = 4) -> LoadRequest:
    """The request that such a window answers."""
    return LoadRequest(
        base_url="http://127.0.0.1:1",
        model="m",
        prompts=(Prompt.of("Say something."),),
        arrivals=Closed(concurrency),
        requests=len(records),
        max_tokens=32,
    )


def steady(rounds: int = 3, tokens: int = 32, step_s: float = 0.05, prompt_s: float = 0.2) -> list[float]:
    """Silences of a window without any stall."""
    return ([prompt_s] + [step_s] * (tokens - 1)) * rounds
