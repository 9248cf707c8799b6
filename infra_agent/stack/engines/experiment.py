"""A program that measures one thing and ends: a kernel, two processes and a transfer, a build and its figures.

`launch.command` is one run. Words in braces are put in: `{python}`, `{source}`, `{model}`, `{parameters}` as for
`engine = "command"`, and `{seed}` and `{result}`: the number that decides the run's inputs, and the file that the run
writes (`docs/experiments.md`). Both stand in INFRA_AGENT_SEED and INFRA_AGENT_RESULT too.

Covered: any language; metrics and parameters declared in the stack file.
Not covered: programs that serve and never end (`engine = "command"`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from infra_agent.errors import ConfigError
from infra_agent.stack.engines import table as t
from infra_agent.stack.engines.base import LaunchPlan, LogPattern, Parameter
from infra_agent.stack.engines.command import EXPERIMENT, command_line, declared_parameters, places_of, python_of
from infra_agent.stack.model import ParameterValue, Stack

SEED, RESULT = "{seed}", "{result}"
SEED_VARIABLE, RESULT_VARIABLE = "INFRA_AGENT_SEED", "INFRA_AGENT_RESULT"
_VERSION = "import sys; print('Python ' + '.'.join(map(str, sys.version_info[:3])))"


class ExperimentEngine:
    """The engine of one stack. Without a stack it describes what all of them share."""

    name = EXPERIMENT
    launches = True
    health_path = "/"
    metrics_path: str | None = None
    log_patterns: Sequence[LogPattern] = (
        LogPattern(
            regex=r"ModuleNotFoundError: No module named '\S+'",
            meaning="the interpreter lacks a package, or a file of the program cannot be seen",
            hint="name the interpreter in launch.python, and what the program reads in experiment.needs",
        ),
        LogPattern(
            regex=r"MemoryError|Cannot allocate memory",
            meaning="it ran out of memory",
            hint="measure less at once, or raise limits.memory_bytes",
        ),
    )

    def __init__(self, stack: Stack | None = None) -> None:
        self._table = declared_parameters(stack) if stack is not None else ()

    def parameters(self) -> Sequence[Parameter]:
        """The parameters that the stack file declares."""
        return self._table

    def plan(self, stack: Stack, settings: Mapping[str, ParameterValue], port: int) -> LaunchPlan:
        """Argv and environment of one run, seed and result still in braces. Raises ConfigError."""
        table = declared_parameters(stack)
        if stack.url is not None:
            raise ConfigError(f"an experiment cannot be launched at an address: {stack.url}", hint="remove url")
        if not stack.launch.command:
            hint = 'e.g. command = ["{python}", "measure.py", "{result}"]'
            raise ConfigError("no command is set", where="launch.command", hint=hint)
        t.check(table, settings, where="launch.parameters")
        t.check_side_doors(table, (*stack.launch.extra_args, *stack.launch.command), stack.launch.env, ())
        argv, env = command_line(stack, table, settings, {**places_of(stack), "seed": SEED, "result": RESULT})
        return LaunchPlan(argv=argv, env=env, host="", port=0)

    def version_argv(self, stack: Stack) -> tuple[str, ...] | None:
        """The interpreter's version, for a command that uses it."""
        uses = any("{python}" in word for word in stack.launch.command)
        return (python_of(stack), "-I", "-S", "-c", _VERSION) if uses else None

    def reporter(self) -> str | None:
        """Any Python process can note which lines it executes."""
        return "python"

    def model_in_request(self, stack: Stack) -> str:
        """Nobody asks it anything."""
        return stack.name


def is_experiment(stack: Stack) -> bool:
    """Whether the stack is measured by running it, not by sending it requests."""
    return stack.engine == EXPERIMENT


def of_run(plan: LaunchPlan, seed: int, result: Path) -> LaunchPlan:
    """The plan of one run: its seed, and the file that it is to write."""

    def put(word: str) -> str:
        return word.replace(SEED, str(seed)).replace(RESULT, str(result))

    own = {SEED_VARIABLE: str(seed), RESULT_VARIABLE: str(result)}
    env = {name: put(value) for name, value in plan.env.items()}
    return replace(plan, argv=tuple(put(word) for word in plan.argv), env={**env, **own})


def measuring_files(stack: Stack) -> list[Path]:
    """What takes the figures: files of the commands, and what a run needs beside the sources. Never patched."""
    probes = (word for spec in stack.probes.values() for word in spec.command)
    own = (*stack.launch.command, *stack.experiment.needs) if is_experiment(stack) else ()
    sources = {Path(source) for source in stack.sources}
    files = [Path(word) for word in (*own, *probes) if word.startswith("/") and Path(word).exists()]
    return [path for path in files if path not in sources and not _is_program(path)]


def _is_program(path: Path) -> bool:
    """An interpreter or tool of the system is not the stack's."""
    return path.is_relative_to("/usr") or path.is_relative_to("/bin")
