"""Launch settings as files: each, read back by who reads such files, is the launch; hostile values stay values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra_agent.publish.artefacts.launch import artefacts, engine_of, engine_yaml, launch_of

HOSTILE = "a b'c\"d $(touch x) `id` \\ # ; é"
ENV = {"A": "1", "MODE": HOSTILE}


def files(*argv: str, env: dict[str, str] | None = None) -> dict[str, str]:
    made = artefacts(launch_of(argv, env or {}), "demo: C1 continuous batching")
    return {name: content.decode() for name, content in made.files.items()}


def told(folder: Path) -> Path:
    """A program that writes down how it was called."""
    path = folder / "program"
    path.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        "open(os.environ['TOLD'], 'w').write(json.dumps([sys.argv[1:], dict(os.environ)]))\n"
    )
    path.chmod(0o755)
    return path


def test_the_command_line_starts_exactly_the_launch(tmp_path: Path) -> None:
    program = told(tmp_path)
    argv = (str(program), "serve", "/m/smol lm", "--port", "41234", "--name", HOSTILE)
    script = tmp_path / "launch.sh"
    script.write_text(files(*argv, env=ENV)["launch.sh"])
    out = tmp_path / "told.json"
    subprocess.run(["sh", str(script)], check=True, cwd=tmp_path, env={**os.environ, "TOLD": str(out)})
    words, environment = json.loads(out.read_text())
    assert words == ["serve", "/m/smol lm", "--port", "8000", "--name", HOSTILE]
    assert {name: environment[name] for name in ENV} == ENV
    assert not (tmp_path / "x").exists()


def test_the_env_file_has_one_plain_line_for_each_value() -> None:
    lines = [line for line in files("p", env=ENV)["launch.env"].splitlines() if not line.startswith("#")]
    assert dict(line.split("=", 1) for line in lines) == ENV


def test_the_kubernetes_patch_is_json_that_yaml_reads_alike() -> None:
    text = files("vllm", "serve", "m", "--port=1234", env=ENV)["kubernetes-patch.yaml"]
    (container,) = json.loads(text.partition("\n")[2])["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["vllm", "serve", "m", "--port=8000"]
    assert container["env"] == [{"name": name, "value": value} for name, value in sorted(ENV.items())]
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(text) == json.loads(text.partition("\n")[2])


@pytest.mark.parametrize(
    ("argv", "engine"),
    [
        (("/opt/bin/vllm", "serve", "m"), "vllm"),
        (("python3", "-m", "vllm.entrypoints.openai.api_server"), "vllm"),
        (("python3", "-m", "sglang.launch_server", "--model-path", "m"), "sglang"),
        (("python3", "-m", "transformers.cli.transformers", "serve", "vllm"), ""),
        (("/home/vllm/server", "--x", "1"), ""),
    ],
)
def test_the_engine_is_known_by_what_is_started(argv: tuple[str, ...], engine: str) -> None:
    assert engine_of(launch_of(argv, {})) == engine


def test_an_engines_configuration_file_gives_the_options_back() -> None:
    argv = ("vllm", "serve", "m", "--port", "8123", "--max-num-seqs", "64", "--enforce-eager", "--dtype=bfloat16")
    argv += ("--gpu-memory-utilization", "0.9", "--served-model-name", "yes: #1")
    made = files(*argv)
    assert made["vllm.yaml"].splitlines()[1] == "# vllm serve m --config vllm.yaml"
    text = engine_yaml(launch_of(argv, {}))
    assert text.splitlines() == [
        "port: 8000", "max-num-seqs: 64", "enforce-eager: true", 'dtype: "bfloat16"', "gpu-memory-utilization: 0.9",
        'served-model-name: "yes: #1"',
    ]  # fmt: skip
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(text)["served-model-name"] == "yes: #1"


@pytest.mark.parametrize(
    "argv", [("vllm", "serve", "m", "--a", "1", "2"), ("vllm", "serve", "m", "--a", "1", "--a", "2")]
)
def test_what_cannot_be_written_faithfully_is_left_out_and_said(argv: tuple[str, ...]) -> None:
    made = artefacts(launch_of(argv, {"A": "two\nlines"}), "t")
    assert set(made.files) == {"launch.sh", "kubernetes-patch.yaml"}
    assert [gap.partition(":")[0] for gap in made.gaps] == ["launch.env", "vllm.yaml"]


def test_a_title_cannot_leave_its_comment() -> None:
    made = artefacts(launch_of(("p",), {}), "x\nrm -rf /\r\n\x1b[31m")
    assert all(content.decode().count("\nrm") == 0 for content in made.files.values())


def test_masked_secrets_are_named() -> None:
    assert launch_of(("p", "--api-key", "***"), {"HF_TOKEN": "***", "A": "b"}).secrets == ("HF_TOKEN", "***")
