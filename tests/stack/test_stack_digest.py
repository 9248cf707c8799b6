"""The stack's digest: equal for equal things, different for anything that could change a measurement."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from infra_agent.stack.digest import stack_digest, weights_identity
from infra_agent.stack.hashing import HashMemory, sha256_file
from infra_agent.stack.model import LaunchSpec, Stack


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"weights" * 1000)
    return Stack(name="s", engine="transformers", model=str(model))


def test_the_same_stack_has_the_same_digest(stack: Stack, tmp_path: Path) -> None:
    first = stack_digest(stack, {"workload": "w"}, tmp_path / "cache")
    assert first == stack_digest(stack.model_copy(deep=True), {"workload": "w"}, tmp_path / "cache")
    assert first == stack_digest(stack, {"workload": "w"}, tmp_path / "another-cache")
    assert len(first) == 64


def test_anything_that_decides_the_measurement_changes_the_digest(stack: Stack, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    digests = {stack_digest(stack, {}, cache), stack_digest(stack, {"workload": "w"}, cache)}
    digests.add(stack_digest(stack.model_copy(update={"launch": LaunchSpec(parameters={"compile": True})}), {}, cache))
    last_byte = Path(stack.model) / "model.safetensors"
    last_byte.write_bytes(last_byte.read_bytes()[:-1] + b"!")
    digests.add(stack_digest(stack, {}, cache))
    (Path(stack.model) / "tokenizer.json").write_text("{}")
    digests.add(stack_digest(stack, {}, cache))
    assert len(digests) == 5


def test_a_file_is_hashed_once_until_size_or_time_changes(tmp_path: Path) -> None:
    file = tmp_path / "w"
    file.write_bytes(b"one")
    memory = HashMemory(tmp_path / "cache")
    assert memory.sha256(file) == sha256_file(file)
    known = json.loads((tmp_path / "cache" / "hashes.json").read_text())
    known[str(file)][2] = "remembered"
    (tmp_path / "cache" / "hashes.json").write_text(json.dumps(known))
    assert memory.sha256(file) == "remembered"
    os.utime(file, ns=(5, 5))
    assert memory.sha256(file) == sha256_file(file)


@pytest.mark.parametrize("damage", ["", "[]", '{"x"', '{"PATH": 3}'])
def test_a_damaged_memory_costs_time_only(damage: str, tmp_path: Path) -> None:
    file = tmp_path / "w"
    file.write_bytes(b"one")
    (tmp_path / "hashes.json").write_text(damage.replace("PATH", str(file)))
    assert HashMemory(tmp_path).sha256(file) == sha256_file(file)


def test_a_memory_that_cannot_be_written_is_not_an_error(tmp_path: Path) -> None:
    file = tmp_path / "w"
    file.write_bytes(b"one")
    assert HashMemory(file / "below-a-file").sha256(file) == sha256_file(file)


def test_a_cached_hub_snapshot_is_identified_by_its_bytes(tmp_path: Path) -> None:
    snapshot = tmp_path / "hub" / "models--org--name" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    refs = snapshot.parents[1] / "refs"
    refs.mkdir()
    (refs / "main").write_text("abc")
    launch = LaunchSpec(env={"HF_HUB_CACHE": str(tmp_path / "hub")})
    stack = Stack(name="s", engine="transformers", model="org/name", launch=launch)
    assert list(weights_identity(stack, tmp_path / "cache")["files"]) == ["config.json"]


def test_a_server_attached_to_by_url_has_only_its_name(tmp_path: Path) -> None:
    stack = Stack(name="s", engine="openai", model="m", url="http://h:1", served_model="n")
    assert weights_identity(stack, tmp_path) == {"name": "n"}
    assert stack_digest(stack, {}, tmp_path) == stack_digest(stack, {}, tmp_path)
