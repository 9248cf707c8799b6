"""Secrets of a stack file: found, left out of what is written, and put back for a resume."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra_agent.errors import ConfigError
from infra_agent.redact.masker import Masker
from infra_agent.stack.digest import stack_digest
from infra_agent.stack.files import DEMO, load_stack
from infra_agent.stack.model import LaunchSpec, Stack
from infra_agent.stack.secrets import hidden_stack, restored_stack, stack_secrets

pytestmark = pytest.mark.requirement("S1")
STACK = Stack(
    name="s",
    engine="openai",
    model="m",
    url="http://me:pw-in-url@127.0.0.1:9/v1",
    launch=LaunchSpec(
        env={"ENGINE_API_KEY": "key-of-the-engine", "OMP_NUM_THREADS": "2", "PIN_TOKEN": "ab"},
        extra_args=("--api-key", "key-in-argv", "--dtype", "auto"),
        parameters={"hf_token": "key-in-parameters", "max_num_batched_tokens": 8192, "compile": True},
    ),
)


def test_all_secrets_of_a_stack_are_found() -> None:
    found = stack_secrets(STACK)
    assert {"key-of-the-engine", "key-in-argv", "key-in-parameters", "pw-in-url", "ab"} <= found
    assert not {"auto", "2", "m"} & found


def test_the_stack_as_it_is_written_has_its_settings_and_no_secret() -> None:
    shown = hidden_stack(STACK)
    assert shown.launch.env == {"ENGINE_API_KEY": "***", "OMP_NUM_THREADS": "2", "PIN_TOKEN": "***"}
    assert shown.launch.extra_args == ("--api-key", "***", "--dtype", "auto")
    assert shown.launch.parameters == {"hf_token": "***", "max_num_batched_tokens": 8192, "compile": True}
    assert shown.url == "http://me:***@127.0.0.1:9/v1"
    text = shown.model_dump_json()
    assert Masker(stack_secrets(STACK)).text(text) == text
    plain = STACK.model_copy(update={"launch": LaunchSpec(), "url": None})
    assert hidden_stack(plain) == plain


def test_a_stack_without_secrets_comes_back_as_it_is() -> None:
    plain = Stack(name="s", engine="openai", model="m", url="http://127.0.0.1:9")
    assert restored_stack(plain, "any digest", "", {}) is plain


def test_secrets_come_back_from_the_file_they_were_read_from(tmp_path: Path) -> None:
    path = tmp_path / "infra-agent.toml"
    path.write_text(
        '[stack]\nname = "s"\nengine = "openai"\nmodel = "m"\nurl = "http://127.0.0.1:9"\n'
        '[launch.env]\nENGINE_API_KEY = "key-of-the-engine"\n'
    )
    stack = load_stack(path)
    digest = stack_digest(stack, {})
    assert restored_stack(hidden_stack(stack), digest, str(path), {}) == stack
    path.write_text(path.read_text().replace("key-of-the-engine", "quite-another-key"))
    with pytest.raises(ConfigError, match=r"needs secrets.*launch\.env\.ENGINE_API_KEY"):
        restored_stack(hidden_stack(stack), digest, str(path), {})


def test_secrets_come_back_from_variables_of_the_same_name_when_the_digest_agrees() -> None:
    stack = Stack(
        name="s", engine="openai", model="m", url="http://127.0.0.1:9",
        launch=LaunchSpec(env={"ENGINE_API_KEY": "key-of-the-engine"}),
    )  # fmt: skip
    kept, digest = hidden_stack(stack), stack_digest(stack, {})
    assert restored_stack(kept, digest, DEMO, {"ENGINE_API_KEY": "key-of-the-engine"}) == stack
    with pytest.raises(ConfigError) as caught:
        restored_stack(kept, digest, "/nowhere/infra-agent.toml", {"ENGINE_API_KEY": "wrong"})
    assert caught.value.where == "/nowhere/infra-agent.toml"
    assert "or set ENGINE_API_KEY=..." in caught.value.hint


def test_secrets_outside_the_environment_cannot_be_set_by_hand() -> None:
    with pytest.raises(ConfigError) as caught:
        restored_stack(hidden_stack(STACK), stack_digest(STACK, {}), "", {})
    assert "launch.extra_args" in caught.value.message
    assert "or set" not in caught.value.hint
