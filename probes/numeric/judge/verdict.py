"""From names to a verdict: reads spec and reference, asks the cache, examines, remembers.

Covered: the one function that commands and other code call; everything heavy is imported only when the cache has
nothing.
Not covered: what is printed.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probes.base import Json
from probes.numeric.judge.cache import Cache, default_directory, file_digest, judge_digest, key_of, toolchain_digest
from probes.numeric.judge.faults import JudgeFailure
from probes.numeric.judge.runner import PlainRunner, Runner
from probes.numeric.judge.source import Source, command_source, function_source

if TYPE_CHECKING:
    from probes.base import Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What is to be judged. Exactly one of `candidate` and `command`; `reference` is FILE.py:NAME.

    `root`: where modules and the files of a command are looked for; default: the present directory.
    """

    reference: str
    spec: Path
    candidate: str | None = None
    command: str | None = None
    python: str = sys.executable
    cache: Path | None = None
    use_cache: bool = True
    shrink: bool = True
    root: Path | None = None


def judge(ask: Ask, runner: Runner | None = None, environ: Mapping[str, str] | None = None) -> dict[str, Json]:
    """The observation as a JSON document, with `cached` and `answered_s`. JudgeFailure when there can be none."""
    began = time.monotonic()
    runner = runner or PlainRunner()
    source, reference = _source(ask), _reference_file(ask.reference)
    cache = Cache(ask.cache or default_directory(os.environ if environ is None else environ))
    key = key_of(
        {
            "candidate": source.digest(),
            "reference": f"{file_digest(reference)} {ask.reference.rpartition(':')[2]}",
            "spec": file_digest(ask.spec),
            "toolchain": toolchain_digest(ask.python),
            "judge": judge_digest(),
            "runner": runner.name,
        }
    )
    known = cache.get(key) if ask.use_cache else None
    if known is not None:
        return known | {"cached": True, "answered_s": round(time.monotonic() - began, 4)}
    document, keep = _examine(ask, source, reference, runner, cache.directory)
    if keep and ask.use_cache:
        cache.put(key, document)
    return document | {"cached": False, "answered_s": round(time.monotonic() - began, 4)}


def load_function(text: str) -> Callable[..., Any]:
    """A trusted function named FILE.py:NAME, imported into this process."""
    path, name = _reference_file(text), text.rpartition(":")[2]
    spec = importlib.util.spec_from_file_location(f"reference_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise JudgeFailure(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        function = getattr(module, name)
    except Exception as error:
        raise JudgeFailure(f"the reference {text} cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(function):
        raise JudgeFailure(f"the reference {text} is no function")
    return function  # type: ignore[no-any-return]


def _examine(ask: Ask, source: Source, reference: Path, runner: Runner, cache: Path) -> tuple[dict[str, Json], bool]:
    from probes.numeric.judge.examine import Examination
    from probes.numeric.judge.observe import keepable, observe, reference_name
    from probes.numeric.judge.spec import SpecError, load_spec
    from probes.numeric.tolerance.expected import Reference, ReferenceFailure

    try:
        spec = load_spec(ask.spec)
        examination = Examination(
            spec=spec, reference=Reference(load_function(ask.reference), spec), source=source, runner=runner,
            python=ask.python, hidden=[reference, ask.spec.absolute(), cache.absolute()], shrink=ask.shrink,
        )  # fmt: skip
        result = examination.run()
    except (SpecError, ReferenceFailure) as error:
        raise JudgeFailure(str(error)) from error
    name = reference_name(reference, ask.reference.rpartition(":")[2])
    observation = observe(result, spec, source, name, file_digest(reference), runner.name)
    return _document(observation), keepable(observation)


def _document(observation: Observation) -> dict[str, Json]:
    return asdict(observation) | {"verdict": observation.verdict.value, "rung": observation.rung.value}


def _source(ask: Ask) -> Source:
    if (ask.candidate is None) == (ask.command is None):
        raise JudgeFailure("name a candidate or a command, one of them")
    extra = _files_of(ask.spec)
    if ask.command is not None:
        return command_source(ask.command, extra, ask.root)
    return function_source(str(ask.candidate), extra, ask.root)


def _files_of(spec: Path) -> tuple[str, ...]:
    """`call.files` of a spec, read without its model; a wrong spec is told of later, or here when it is no TOML."""
    try:
        document = tomllib.loads(spec.read_text(encoding="utf-8"))
    except OSError as error:
        raise JudgeFailure(f"{spec}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise JudgeFailure(f"{spec} is not TOML: {error}") from error
    call = document.get("call")
    files = call.get("files", []) if isinstance(call, dict) else []
    return tuple(str(each) for each in files) if isinstance(files, list) else ()


def _reference_file(text: str) -> Path:
    place, colon, name = text.rpartition(":")
    path = Path(place).absolute()
    if not colon or not name or not path.is_file():
        raise JudgeFailure(f"{text!r} names no reference: write FILE.py:NAME of a file that exists")
    return path
