"""Children get an allow-list of the harness's environment: no secret among it, and no wish to report home."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infra_agent.harness.environment import child_env, tool_env
from infra_agent.stack.pip import child_environment

pytestmark = pytest.mark.requirement("S1")
PARENT = {
    "PATH": "/usr/bin", "LANG": "C.UTF-8", "LC_ALL": "C", "OMP_NUM_THREADS": "2", "CUDA_VISIBLE_DEVICES": "0",
    "HOME": "/home/somebody", "SSH_AUTH_SOCK": "/tmp/agent", "OPENAI_API_KEY": "sk-one", "HF_TOKEN": "hf_two",
    "CUDA_SECRET_KEY": "three", "OMP_URL": "http://u:p@host", "AWS_PROFILE": "x", "PYTHONPATH": "/x", "USER": "me",
    "LD_PRELOAD": "/x.so", "HTTPS_PROXY": "http://proxy", "INFRA_AGENT_RUNS": "/runs",
}  # fmt: skip


def test_an_engine_gets_what_is_allowed_and_nothing_else(tmp_path: Path) -> None:
    env = child_env(PARENT, {"MY_SETTING": "1"}, tmp_path)
    allowed = {"PATH", "LANG", "LC_ALL", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"}
    ours = {"HOME", "PYTHONUNBUFFERED", "DO_NOT_TRACK", "VLLM_NO_USAGE_STATS", "HF_HUB_DISABLE_TELEMETRY"}
    assert env.keys() == allowed | ours | {"MY_SETTING"}
    assert env["HOME"] == str(tmp_path)


def test_the_plan_wins_and_may_name_secrets_of_its_own(tmp_path: Path) -> None:
    env = child_env(PARENT, {"ENGINE_API_KEY": "sk-engine", "OMP_NUM_THREADS": "4", "DO_NOT_TRACK": "0"}, tmp_path)
    assert (env["ENGINE_API_KEY"], env["OMP_NUM_THREADS"], env["DO_NOT_TRACK"]) == ("sk-engine", "4", "0")


def test_a_helper_gets_less_still() -> None:
    assert tool_env(PARENT).keys() == {"PATH", "LANG", "LC_ALL", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"}


def test_pip_gets_its_own_settings_and_no_secret_of_others() -> None:
    given = {**PARENT, "PIP_INDEX_URL": "https://me:token@index.example/simple"}
    env = child_environment(given)
    assert env["PIP_INDEX_URL"] == given["PIP_INDEX_URL"]
    assert env["HTTPS_PROXY"] == "http://proxy"
    assert not env.keys() & {"OPENAI_API_KEY", "HF_TOKEN", "CUDA_SECRET_KEY"}
    assert os.environ.get("PATH")
