from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent.sessions import started

from infra_agent.agent.choose import LlmFlags, choose_brain, resumed_choice
from infra_agent.agent.make import require_brain
from infra_agent.cli.run import shown
from infra_agent.errors import EndpointError, UsageError
from infra_agent.testing.scripted_llm import FEATURES, ScriptedLlm

NOTHING: dict[str, str] = {}


@pytest.fixture
def llm() -> Any:
    with ScriptedLlm(policy=[], listed={"max_model_len": 4096}).serving() as serving:
        yield serving


def test_without_anything_configured_it_is_the_playbooks() -> None:
    choice = choose_brain(None, None, LlmFlags(), NOTHING)
    assert choice.name == "playbook"
    assert choice.note.startswith("no LLM configured")


@pytest.mark.parametrize("name", ["playbook", "search"])
def test_a_brain_that_is_asked_for_is_taken_whatever_is_configured(name: str, llm: ScriptedLlm) -> None:
    assert choose_brain(name, None, LlmFlags(), {"OPENAI_BASE_URL": llm.url}).name == name


def test_an_address_in_the_environment_is_enough_name_and_window_come_from_the_endpoint(llm: ScriptedLlm) -> None:
    choice = choose_brain(None, None, LlmFlags(), {"OPENAI_BASE_URL": llm.url})
    assert choice.llm is not None
    assert (choice.name, choice.llm.model, choice.llm.window_tokens) == ("llm", "scripted", 4096)
    assert "OPENAI_BASE_URL is set" in choice.note


@pytest.mark.parametrize(
    "listed", [{"context_length": 9000}, {"meta": {"n_ctx_train": 9000}}, {"top_provider": {"context_length": 9000}}]
)
def test_the_window_is_found_under_the_names_that_servers_use(listed: dict[str, Any]) -> None:
    with ScriptedLlm(policy=[], listed=listed).serving() as serving:
        choice = choose_brain("llm", None, LlmFlags(base_url=serving.url), NOTHING)
    assert choice.llm is not None
    assert choice.llm.window_tokens == 9000


def test_flags_win_over_what_is_listed_and_over_the_environment(llm: ScriptedLlm) -> None:
    flags = LlmFlags(model="mine", base_url=llm.url, timeout_s=7200.0, window_tokens=2048, headers=("a=b=c",))
    choice = choose_brain(None, None, flags, {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_MODEL": "other"})
    assert choice.llm is not None
    assert (choice.llm.model, choice.llm.timeout_s, choice.llm.window_tokens) == ("mine", 7200.0, 2048)
    assert choice.credentials.headers == {"a": "b=c"}


def test_a_server_that_lists_nothing_needs_a_name_and_then_works() -> None:
    with ScriptedLlm(policy=[], features=FEATURES - {"models"}).serving() as serving:
        named = choose_brain("llm", None, LlmFlags(model="m", base_url=serving.url), NOTHING)
        with pytest.raises(EndpointError, match="lists no model"):
            choose_brain("llm", None, LlmFlags(base_url=serving.url), NOTHING)
    assert named.llm is not None


def test_what_is_kept_names_no_key_and_of_headers_only_the_names(llm: ScriptedLlm) -> None:
    flags = LlmFlags(base_url=llm.url, headers=("x-key=secret",))
    kept = choose_brain("llm", None, flags, {"OPENAI_API_KEY": "sk-secret"}).settings()
    assert "secret" not in repr(kept)
    assert (kept["headers"], kept["key"]) == ("x-key", True)


@pytest.mark.parametrize(
    ("name", "flags", "environ", "named"),
    [
        ("nonsense", LlmFlags(), NOTHING, "no brain"),
        ("playbook", LlmFlags(model="m"), NOTHING, "asks no model"),
        ("llm", LlmFlags(base_url="ftp://x"), NOTHING, "not an http address"),
        ("llm", LlmFlags(base_url="http://user:sk-secret@host/v1"), NOTHING, "kept in the ledger"),
        ("llm", LlmFlags(base_url="http://127.0.0.1:9/v1", headers=("no value",)), NOTHING, "NAME=VALUE"),
        ("llm", LlmFlags(base_url="http://127.0.0.1:9/v1", headers=("a=b\nc=d",)), NOTHING, "NAME=VALUE"),
        ("llm", LlmFlags(model="m"), NOTHING, "no key"),
        (None, LlmFlags(base_url="http://127.0.0.1:9/v1"), NOTHING, "cannot be reached"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_spent(
    name: str | None, flags: LlmFlags, environ: dict[str, str], named: str
) -> None:
    with pytest.raises(UsageError) as caught:
        choose_brain(name, None, flags, environ)
    assert named in caught.value.message + caught.value.hint
    assert "sk-secret" not in caught.value.message + caught.value.where


def test_a_key_of_the_environment_that_leads_nowhere_leaves_it_to_the_playbooks() -> None:
    environ = {"OPENAI_API_KEY": "sk", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    choice = choose_brain(None, None, LlmFlags(), environ)
    assert choice.name == "playbook"
    assert "cannot be reached" in choice.note
    assert choice.llm is None


def test_a_resumed_run_asks_the_same_model_with_keys_from_outside(llm: ScriptedLlm) -> None:
    flags = LlmFlags(base_url=llm.url, headers=("x-team=blue",))
    begun = choose_brain("llm", None, flags, {"OPENAI_API_KEY": "sk"})
    kept = started(brain="llm").model_copy(update={"brain_settings": begun.settings(), "brain_note": begun.note})
    again = resumed_choice(kept, Path("none"), LlmFlags(headers=("x-team=blue",)), {"OPENAI_API_KEY": "sk2"})
    assert again.llm == begun.llm
    assert again.credentials.api_key == "sk2"
    with pytest.raises(UsageError, match="header x-team"):
        resumed_choice(kept, Path("none"), LlmFlags(), NOTHING)


def test_a_run_that_was_begun_over_mcp_is_not_carried_on_by_a_brain() -> None:
    choice = resumed_choice(started(brain="mcp"), Path("none"), LlmFlags(), NOTHING)
    with pytest.raises(UsageError, match="over MCP"):
        require_brain(choice)


def test_header_values_never_reach_the_kept_command_line() -> None:
    words = ["run", "--header", "a=secret", "--header=b=secret=x", "--goal", "a=b"]
    assert shown(words) == ["run", "--header", "a=***", "--header=b=***", "--goal", "a=b"]
