"""Shell commands that reproduce a report's figures, each line safe to paste.

Covered: the run itself, the launch of stock and of best as they were started, and the load probe against each.
Piped into bash the lines run in order: each server is waited for, measured and stopped.
Not covered: the sandbox around the engine (the run's own command restores it).
"""

from __future__ import annotations

import shlex
from urllib.parse import urlsplit

from infra_agent.publish.report.format import shell
from infra_agent.publish.report.model import Report
from infra_agent.publish.report.rows import Configuration, LaunchRow
from infra_agent.stack.engines.command import EXPERIMENT
from infra_agent.stack.engines.experiment import RESULT_VARIABLE, SEED_VARIABLE

_DEFAULT_PORT = 8000
RESULT = "./result.json"
_WORKLOAD_FLAGS = (
    ("--requests", "requests"),
    ("--warmup", "warmup_requests"),
    ("--max-tokens", "max_tokens"),
    ("--prompts", "prompts"),
    ("--endpoint", "endpoint"),
    ("--timeout", "request_timeout_s"),
)


def commands(report: Report) -> list[str]:
    """The commands, in the order in which to run them."""
    lines = ["# the whole run", _run(report)]
    configurations = [report.baseline]
    if report.best.candidate != report.baseline.candidate:
        configurations.append(report.best)
    for configuration in configurations:
        lines += measure_commands(report, configuration)
    lines += ["# the ledger behind this report", f"infra-agent runs verify {shlex.quote(report.run.id)}"]
    return lines


def _run(report: Report) -> str:
    if report.run.command:
        return shlex.join(report.run.command)
    return shlex.join(["infra-agent", "run", "--goal", report.goal.text])


def measure_commands(report: Report, configuration: Configuration) -> list[str]:
    """Launch a configuration, measure it, stop it."""
    # A title is free text of the engine's table or a brain: on a comment line only its words may stand.
    title = " ".join(word for word in configuration.title.split() if word.isprintable())
    heading = f"# {configuration.candidate}: {title}" if title != configuration.candidate else f"# {title}"
    if configuration.launch is None:
        if report.stack.url is None:
            return [f"{heading}: never launched in this run"]
        return [heading, _probe(report, report.stack.url)]
    if report.stack.engine == EXPERIMENT:
        return [heading, *_experiment(report, configuration, configuration.launch)]
    url = _url(configuration.launch)
    wait = f'until curl -fsS -o /dev/null {url}{report.stack.health_path}; do kill -0 "$server" || break; sleep 1; done'
    return [
        heading,
        f"{_start(report, configuration, configuration.launch)} & server=$!",
        wait,
        _probe(report, url),
        'kill "$server"; wait "$server"',
    ]


def _experiment(report: Report, configuration: Configuration, launch: LaunchRow) -> list[str]:
    """One run, its result in the present directory. A patch has to be applied first, and taken back afterwards."""
    written = launch.env.get(RESULT_VARIABLE, "")
    here = {name: value for name, value in launch.env.items() if name not in (RESULT_VARIABLE, SEED_VARIABLE)}
    argv = [word.replace(written, RESULT) if written else word for word in launch.argv]
    seeded = {**here, RESULT_VARIABLE: RESULT, SEED_VARIABLE: launch.env.get(SEED_VARIABLE, str(_seed(report)))}
    run = shell(argv, seeded)
    row = next((row for row in report.candidates if row.id == configuration.candidate), None)
    if row is None or not row.patches:
        return [run]
    if row.patch is None or not row.patch.apply or len(row.patches) > 1:
        return [f"# its code stands in the run's own tree: {', '.join(row.patches)}", run]
    return [row.patch.apply, run, row.patch.undo]


def _start(report: Report, configuration: Configuration, launch: LaunchRow) -> str:
    """The command line as it was started; with a patch the run's own tree has to be mounted, which `stack up` does."""
    row = next((row for row in report.candidates if row.id == configuration.candidate), None)
    if row is None or not row.patches:
        return shell(launch.argv, launch.env)
    port = urlsplit(_url(launch)).port
    return shlex.join([*stack_up(report, "--run", report.run.id), "--port", str(port)])


def stack_up(report: Report, *which: str) -> list[str]:
    """`infra-agent stack up` on the run's own stack: `--stock`, or `--run ID` with its patches mounted."""
    return ["infra-agent", "stack", "up", *_stack(report), *which]


def _stack(report: Report) -> list[str]:
    """The run's own `--stack`, if it named one."""
    named = _option(report.run.command, "--stack")
    return ["--stack", named] if named else []


def _url(launch: LaunchRow) -> str:
    """Where the server of this command line listens; a port that is no number is not believed."""
    port = _option(launch.argv, "--port")
    return f"http://127.0.0.1:{int(port) if port.isdigit() else _DEFAULT_PORT}"


def _option(argv: list[str], name: str) -> str:
    for index, word in enumerate(argv):
        if word == name and index + 1 < len(argv):
            return argv[index + 1]
        if word.startswith(f"{name}="):
            return word.removeprefix(f"{name}=")
    return ""


def _probe(report: Report, url: str) -> str:
    """The load probe with the run's own workload."""
    parts = urlsplit(url)
    address = f"{parts.scheme}://{parts.netloc}"
    return shlex.join(["python", "-m", "probes.load", "--url", address, *load_argv(report)])


def load_argv(report: Report) -> list[str]:
    """The load probe's options for the run's own workload, without the server's address."""
    workload, load = report.stack.workload, report.goal.load
    argv = ["--model", report.stack.model]
    if load is not None and load.rate_per_s is not None:
        argv += ["--rate", f"{load.rate_per_s:g}"]
    else:
        concurrency = load.concurrency if load is not None else workload.get("concurrency", 1)
        argv += ["--concurrency", str(concurrency)]
    for flag, name in _WORKLOAD_FLAGS:
        argv += [flag, f"{workload[name]:g}" if isinstance(workload[name], float) else str(workload[name])]
    if report.stack.served_model != report.stack.model:
        argv += ["--expected-model", report.stack.served_model]
    argv += [] if workload["stream"] else ["--no-stream"]
    for limit in report.goal.slo:
        argv += [f"--slo-{limit.metric.value.removesuffix('_s')}", f"{limit.value:g}"]
    return [*argv, "--seed", str(_seed(report))]


def _seed(report: Report) -> int:
    """A seed the figures were measured with: the final relaunch's first, else the first of the search."""
    seeds = report.final.seeds if report.final is not None else report.search.seeds
    return seeds[0] if seeds else report.run.seed
