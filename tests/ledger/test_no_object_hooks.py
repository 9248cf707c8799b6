"""Nothing that is read can become code: no pickle, no marshal, no YAML objects, no evaluated text, in no package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import infra_agent
import probes

pytestmark = pytest.mark.requirement("L5")
ROOT = Path(infra_agent.__file__).parents[1]
SOURCES = sorted(
    path
    for folder in (Path(infra_agent.__file__).parent, Path(probes.__file__).parent, ROOT / "scripts", ROOT / "skills")
    for path in folder.rglob("*.py")
)
ALLOWED = {
    # Runs in the engine's own process, and compiles the engine's own sources to compare, not to run, them.
    "infra_agent/harness/inject/": {"compile()"},
    # Compiles what a change would commit, to see that it is Python; nothing of it is run.
    "infra_agent/publish/pull_request/branch.py": {"compile()"},
    # Scripts that start under -I -S, where nothing is on the path: each loads one file beside it, by a name of its own.
    "infra_agent/harness/inside.py": {"__import__()"},
    "infra_agent/harness/keeper.py": {"__import__()"},
    # Refuses a key that stands twice in an object, and makes nothing but the dict.
    "infra_agent/agent/brains/llm/parse.py": {"object_pairs_hook="},
    # Records between processes of one client, over pipes that nobody else holds.
    "probes/load/processes.py": {"import pickle", ".loads()"},
    "probes/load/worker": {"import pickle", ".loads()"},
}
MODULES = {
    "pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "dbm", "yaml", "ruamel",
    "jsonpickle", "msgpack", "xmlrpc", "copyreg",
}  # fmt: skip
CALLS = {"eval", "exec", "compile", "__import__"}
METHODS = {"read_pickle", "to_pickle", "loads_pickle", "unsafe_load", "full_load", "load_module"}
KEYWORDS = {"object_hook", "object_pairs_hook", "ext_hook", "allow_pickle", "from_attributes"}


def hooks(tree: ast.AST) -> Iterator[str]:
    """Every way in which data read from outside could make objects or run code."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (f"import {n.name}" for n in names if n.name.split(".")[0] in MODULES)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in MODULES:
                yield f"from {module} import"
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                yield f"{name}()"
            case ast.Call(func=ast.Attribute(attr=name)) if name in METHODS:
                yield f".{name}()"
        if isinstance(node, ast.Call):
            yield from (f"{k.arg}=" for k in node.keywords if k.arg in KEYWORDS and not _is_false(k.value))
            yield from _torch_load(node)


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def _torch_load(node: ast.Call) -> Iterator[str]:
    """`torch.load` unpickles unless it is told not to."""
    match node.func:
        case ast.Attribute(value=ast.Name(id="torch"), attr="load"):
            safe = [k for k in node.keywords if k.arg == "weights_only"]
            if not any(isinstance(k.value, ast.Constant) and k.value.value is True for k in safe):
                yield "torch.load without weights_only=True"


def test_there_are_sources_to_look_at():
    assert len(SOURCES) > 150


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_source_has_a_hook(path: Path):
    found = list(hooks(ast.parse(path.read_text(encoding="utf-8"))))
    allowed = next((hooks for place, hooks in ALLOWED.items() if str(path.relative_to(ROOT)).startswith(place)), set())
    assert [hook for hook in found if hook not in allowed] == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle", "import pickle as p", "from pickle import loads", "import yaml",
        "from ruamel.yaml import YAML",
        "import torch; torch.load(path)", "torch.load(path, weights_only=False)", "eval(text)", "exec(text)",
        "json.loads(text, object_hook=make)", "np.load(path, allow_pickle=True)", "pd.read_pickle(path)",
        "import xmlrpc.client", "msgpack.unpackb(x, ext_hook=f)", "__import__(name)", "compile(text, '', 'exec')",
    ],
)  # fmt: skip
def test_each_kind_of_hook_is_seen(source: str):
    assert list(hooks(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    ["import json; json.loads(text, parse_int=int)", "torch.load(path, weights_only=True)", "re.compile('x')",
     "np.load(path, allow_pickle=False)", "model.eval()", "tomllib.loads(text)"],
)  # fmt: skip
def test_what_only_reads_data_is_left_alone(source: str):
    assert not list(hooks(ast.parse(source)))
