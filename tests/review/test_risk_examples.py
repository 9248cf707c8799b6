"""Sixty diffs with the class that each must have at least: none may be below it, and plain ones stay routine."""

from __future__ import annotations

import pytest
from review.test_code_risk import strictest

from infra_agent.review.code_risk import Surroundings
from infra_agent.review.risk import STRICTNESS
from infra_agent.stack.engines.base import RiskClass

N, C, P, M, R = (
    RiskClass.NUMERICS, RiskClass.CONCURRENCY, RiskClass.PRODUCTION, RiskClass.MEMORY, RiskClass.ROUTINE,
)  # fmt: skip
HEAD = "import torch\n\n\n"
BODY = "def _step(x, w, state, pool, lock):\n    {}\n"
EXAMPLES: list[tuple[RiskClass, str, str]] = [
    (N, "return x", "return x.half()"),
    (N, "return x", "return x.to(torch.bfloat16)"),
    (N, "return f(x, dtype=torch.float32)", "return f(x)"),
    (N, "return f(x)", "return f(x, precision='tf32')"),
    (N, "return x @ w", "return torch.matmul(w, x)"),
    (N, "return x + w + state", "return x + (w + state)"),
    (N, "return x.sum(0)", "return x.sum(1)"),
    (N, "return x / w", "return x * (1 / w)"),
    (N, "return softmax(x)", "return softmax(x, dim=-1)"),
    (N, "return norm(x, eps=1e-6)", "return norm(x, eps=1e-5)"),
    (N, "return close(x, w, atol=1e-5)", "return close(x, w, atol=1e-2)"),
    (N, "return x", "return x.round(decimals=2)"),
    (N, "return x", "return x.cumsum(0)"),
    (N, "return f(x)", "return quantize(f(x))"),
    (N, "torch.backends.cuda.matmul.allow_tf32 = False", "torch.backends.cuda.matmul.allow_tf32 = True"),
    (N, "return pick(x)", "return torch.topk(x, 4)"),
    (N, "return g(x)", "return g(x, temperature=0.7)"),
    (N, "torch.manual_seed(0)", "torch.manual_seed(1)"),
    (N, "return attention(x)", "return flash_attention(x)"),
    (N, "return run(x)", "return kernel[1](x)"),
    (N, "y = x", "y = 'bfloat16'"),
    (N, "return x", "return x - w"),
    (N, "x += w", "x -= w"),
    (N, "return x", "return x.exp()"),
    (N, "return x", "return torch.einsum('ij,j', x, w)"),
    (C, "return f(x)", "return pool.submit(f, x)"),
    (C, "with lock:\n        f(x)", "f(x)"),
    (C, "f(x)", "with lock:\n        f(x)"),
    (C, "f(x)", "threading.Thread(target=f).start()"),
    (C, "f(x)", "asyncio.create_task(f(x))"),
    (C, "f(x)", "state.queue.put(x)"),
    (C, "f(x)", "state.event.wait()"),
    (C, "f(x)", "f(x, stream=state.s)"),
    (C, "f(x)", "torch.cuda.synchronize()"),
    (C, "f(x)", "global counter\n    f(x)"),
    (C, "f(x)", "state.barrier(x)"),
    (C, "f(x)", "release_gil(f, x)"),
    (C, "f(x)", "signal.signal(2, f)"),
    (C, "f(x)", "os.fork()"),
    (C, "f(x)", "state.workers = 4"),
    (M, "return f(x)", "return state.cache.get(x)"),
    (M, "return f(x)", "return f(x, buffer=w)"),
    (M, "f(x)", "state.blocks.append(x)"),
    (M, "f(x)", "gc.collect()"),
    (M, "f(x)", "state.pinned = x"),
    (P, "f(timeout=3)", "f(timeout=30)"),
    (P, "f(x)", "f(x, max_tokens=5)"),
    (P, "f(x)", "f(x, limit=9)"),
    (P, "f(x)", "os.environ.get('X')"),
    (P, "assert x", "pass"),
    (P, "f(x)", "raise ValueError(x)"),
    (P, "f(x)", "try:\n        f(x)\n    except OSError:\n        pass"),
    (P, "f(x)", "subprocess.run(x)"),
    (P, "f(x)", "eval(x)"),
    (P, "f(x)", "setattr(x, 'f', f)"),
    (P, "f(x)", "import somebody\n    f(x)"),
    (P, "f(x)", "return headers(x)"),
    (R, "f(x)", "f(x)  # said again"),
    (R, "f(x)\n    g(x)", "g(x)"),
    (R, "return f(x)", "return g(x)"),
    (R, "y = f(x)", "z = f(x)"),
    (R, "time.sleep(0.1)", "pass"),
]


def of(before: str, after: str) -> RiskClass:
    return strictest(HEAD + BODY.format(before), HEAD + BODY.format(after), Surroundings(numeric=True))


def test_there_are_sixty_examples_of_every_gated_class() -> None:
    assert len(EXAMPLES) >= 60
    assert {wanted for wanted, _, _ in EXAMPLES} == {N, C, M, P, R}


@pytest.mark.parametrize(("wanted", "before", "after"), EXAMPLES, ids=[f"{n}" for n in range(len(EXAMPLES))])
def test_no_diff_has_a_class_below_the_one_that_it_must_have(wanted: RiskClass, before: str, after: str) -> None:
    found = of(before, after)
    if wanted is R:
        assert found is R
    else:
        assert STRICTNESS.index(found) >= STRICTNESS.index(wanted), found
