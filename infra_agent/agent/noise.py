"""`infra-agent doctor --noise`: launches stock several times and says what this machine can prove."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path

from infra_agent.agent.choose import Choice
from infra_agent.agent.start import Request, begin
from infra_agent.changes.change import STOCK
from infra_agent.errors import StackError
from infra_agent.goal.model import Direction, Goal, Metric, Statistic, Target
from infra_agent.harness.launching import launched
from infra_agent.harness.measuring import measure_load
from infra_agent.harness.memory import launch_logs
from infra_agent.harness.narrate import Narrator
from infra_agent.harness.proving import MDE_BLOCKS
from infra_agent.harness.sandbox import hold_walls
from infra_agent.judge.calibrate import block_sd_from_launches, mde_ratio, noise_sd
from infra_agent.judge.plan import plan_blocks
from infra_agent.stack.demo import prepare_demo
from infra_agent.stack.files import DEMO, resolve_stack, validate_paths

LAUNCHES = 6


def measure_noise(
    stack_ref: str | None, cwd: Path, no_sandbox: bool, narrator: Narrator
) -> dict[str, float | int | str]:
    """A/A: the same configuration launched six times. Returns sd_log, mde_ratio, blocks, launches and metric."""
    stack, source = resolve_stack(stack_ref, cwd)
    if source == DEMO:
        stack = prepare_demo(lambda text: narrator.line("Set-up", text))
    else:
        validate_paths(stack)
    goal = Goal(
        metric=Metric.OUTPUT_TOK_PER_S,
        statistic=Statistic.VALUE,
        direction=Direction.MAXIMISE,
        target=Target(kind="ratio", value=2.0),
        text="noise of the stock stack",
    )
    with tempfile.TemporaryDirectory(prefix="infra-agent-noise-") as folder:
        request = Request(
            goal=goal,
            stack=stack,
            brain=Choice(name="none", note="A/A only"),
            seed=secrets.randbelow(2**31),
            run_dir=Path(folder) / "run",
            walls=hold_walls(no_sandbox),
            command=("infra-agent", "doctor", "--noise"),
        )
        with begin(request, narrator) as session:
            for block in plan_blocks(session.seed, LAUNCHES, stage="calibrate"):
                with launched(session, STOCK, arm="stock", purpose="calibrate", lane="agent") as launch:
                    measured = measure_load(
                        session, launch, candidate=STOCK, lane="agent", purpose="measure", seed=block.seed
                    )
                narrator.line("Noise", f"launch {block.index + 1} of {LAUNCHES}: {measured.observation.summary}")
            logs = launch_logs(session.state, goal, STOCK)
    if len(logs) < LAUNCHES:
        raise StackError(f"only {len(logs)} of {LAUNCHES} launches gave a valid figure", hint="infra-agent doctor")
    sd_log = noise_sd([logs])
    return {
        "metric": goal.metric.value,
        "launches": len(logs),
        "sd_log": sd_log,
        "blocks": MDE_BLOCKS,
        "mde_ratio": mde_ratio(block_sd_from_launches(sd_log), MDE_BLOCKS),
    }
