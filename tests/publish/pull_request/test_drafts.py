"""Drafts on GitHub and GitLab against a local forge that checks every request by the published API; plain remotes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from publish.pull_request import fake_forge
from publish.pull_request.code_runs import FASTER, SERVER, code_run, diff, git, package, repository
from publish.pull_request.fake_forge import Failure

from infra_agent.errors import ConfigError, ForgeError, PullRequestRefused, UsageError
from infra_agent.publish.pull_request import forge as forges
from infra_agent.publish.pull_request.draft import Opened, open_draft
from infra_agent.publish.pull_request.forge import Target
from infra_agent.publish.pull_request.github import github
from infra_agent.publish.pull_request.gitlab import gitlab
from infra_agent.publish.pull_request.package import Package
from infra_agent.publish.pull_request.remote import Remote, push, remote_of

TOKEN = "canary-token-0123456789abcdef"
KINDS = ("github", "gitlab")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Package:
    folder = tmp_path_factory.mktemp("made")
    upstream = repository(folder / "project", {"app/server.py": SERVER})
    return package(code_run(folder, diff(SERVER, FASTER), source=upstream / "app"), not_duplicate="nobody else did it")


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    path = tmp_path / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", str(path)], check=True)
    return path


@pytest.fixture(params=KINDS)
def forge(request: pytest.FixtureRequest) -> Iterator[fake_forge.Forge]:
    with fake_forge.running(request.param) as running:
        yield running
        assert running.faults == []


def opened(forge: fake_forge.Forge, made: Package, bare: Path, body: str = "") -> Opened:
    target = Target(title=made.title, body=body or made.body, head=made.branch, base="main")
    assert made.git is not None
    with httpx.Client() as client:
        if forge.kind == "github":
            at: Any = github(client, "owner/name", TOKEN, forge.url)
        else:
            at = gitlab(client, "group/sub/name", TOKEN, forge.url)
        return open_draft(at, target, made.git, remote_of(str(bare), bare.parent), made.head)


def branches(bare: Path) -> list[str]:
    return git(bare, "for-each-ref", "--format=%(refname:short) %(objectname)").splitlines()


def test_a_draft_is_opened_and_its_branch_pushed(forge: fake_forge.Forge, made: Package, bare: Path) -> None:
    done = opened(forge, made, bare)
    assert done.created
    assert done.draft.draft
    assert forge.methods() == ["GET", "POST"]
    (row,) = forge.open
    assert row["title"].removeprefix("Draft: ") == made.title
    assert row.get("body", row.get("description")) == made.body
    assert branches(bare) == [f"{made.branch} {made.head}"]


def test_a_second_call_updates_the_same_draft_and_pushes_nothing(
    forge: fake_forge.Forge, made: Package, bare: Path
) -> None:
    first = opened(forge, made, bare)
    second = opened(forge, made, bare, body="another body")
    assert (second.created, second.draft.number) == (False, first.draft.number)
    (row,) = forge.open
    assert row.get("body", row.get("description")) == "another body"
    assert forge.methods()[-1] == ("PATCH" if forge.kind == "github" else "PUT")


def test_a_request_that_a_person_made_ready_is_not_touched(forge: fake_forge.Forge, made: Package, bare: Path) -> None:
    opened(forge, made, bare)
    forge.open[0].update(draft=False, title="ready")
    count = len(forge.requests)
    with pytest.raises(PullRequestRefused, match="a person has it in hand"):
        opened(forge, made, bare)
    assert [request["method"] for request in forge.requests[count:]] == ["GET"]


REFUSALS = [
    (401, {}, "the token was not accepted", "TOKEN"),
    (403, {}, "the token may not do this", "right to write"),
    (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1796083200"}, "rate limit is used up", "2026-12-01"),
    (403, {"retry-after": "60"}, "rate limit is used up", "in 60 s"),
    (404, {}, "no such repository, or the token may not see it", "check the name"),
    (409, {}, "exists already", "--branch"),
    (422, {}, "the fields were refused", "names the field"),
    (429, {"retry-after": "9"}, "rate limit is used up", "in 9 s"),
    (301, {"location": "http://127.0.0.1:9/"}, "redirect", "new name"),
    (500, {}, "answered 500", "later"),
]


@pytest.mark.parametrize(("status", "headers", "says", "hint"), REFUSALS, ids=lambda value: str(value)[:24])
def test_a_refused_creation_is_a_clear_error_and_leaves_nothing(
    forge: fake_forge.Forge, made: Package, bare: Path, status: int, headers: dict[str, str], says: str, hint: str
) -> None:
    said = {"message": "Validation Failed", "errors": [{"field": "head", "code": "invalid"}]}
    forge.failures.append(Failure("POST", "(pulls|merge_requests)$", status, headers, said))
    with pytest.raises(ForgeError) as caught:
        opened(forge, made, bare)
    assert says in caught.value.message
    assert hint in caught.value.hint
    assert TOKEN not in f"{caught.value.message} {caught.value.where} {caught.value.lines} {caught.value.hint}"
    if status == 422:
        assert "field: head, code: invalid" in caught.value.lines
    assert forge.open == []
    assert branches(bare) == []


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_refused_look_leaves_the_remote_as_it_was(
    forge: fake_forge.Forge, made: Package, bare: Path, status: int
) -> None:
    forge.failures.append(Failure("GET", "(pulls|merge_requests)$", status))
    with pytest.raises(ForgeError):
        opened(forge, made, bare)
    assert branches(bare) == []
    assert forge.methods() == ["GET"]


def test_without_an_answer_in_time_the_branch_is_taken_back(
    forge: fake_forge.Forge, made: Package, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forges, "TIMEOUT_S", 0.4)
    forge.failures.append(Failure("POST", "(pulls|merge_requests)$", 0))
    with pytest.raises(ForgeError, match="no answer within"):
        opened(forge, made, bare)
    assert forge.open == []
    assert branches(bare) == []


def test_a_creation_whose_answer_was_lost_is_found_and_not_made_twice(
    forge: fake_forge.Forge, made: Package, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forges, "TIMEOUT_S", 2.0)
    forge.stall_s = 3.0
    forge.failures.append(Failure("POST", "(pulls|merge_requests)$", 0, carried_out=True))
    assert opened(forge, made, bare).draft.draft
    assert len(forge.open) == 1


def test_a_branch_that_was_there_before_is_not_taken_back(forge: fake_forge.Forge, made: Package, bare: Path) -> None:
    assert made.git is not None
    push(made.git, remote_of(str(bare), bare.parent), made.branch, made.head)
    forge.failures.append(Failure("POST", "(pulls|merge_requests)$", 422))
    with pytest.raises(ForgeError):
        opened(forge, made, bare)
    assert branches(bare) == [f"{made.branch} {made.head}"]


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "http://nowhere.invalid"])
def test_a_host_that_is_not_there_is_an_error(address: str) -> None:
    with httpx.Client() as client, pytest.raises(ForgeError, match="cannot be reached"):
        github(client, "owner/name", TOKEN, address).check()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (httpx.Response(200, text="<html>"), "not JSON"),
        (httpx.Response(200, json=[]), "no default_branch"),
        (httpx.Response(200, json={"default_branch": 7}), "no default_branch"),
    ],
)
def test_an_answer_that_is_no_forges_is_an_error(answer: httpx.Response, says: str) -> None:
    with httpx.Client(transport=httpx.MockTransport(lambda _: answer)) as client:
        for forge in (github(client, "owner/name", TOKEN), gitlab(client, "a/b", TOKEN)):
            with pytest.raises(ForgeError, match=says):
                forge.check()


def test_an_archived_repository_takes_nothing(forge: fake_forge.Forge) -> None:
    forge.archived = True
    with httpx.Client() as client:
        known = {"github": github(client, "owner/name", TOKEN, forge.url)}
        at = known.get(forge.kind, gitlab(client, "group/sub/name", TOKEN, forge.url))
        with pytest.raises(ForgeError, match=r"archived|takes no merge"):
            at.check()


def test_work_of_others_on_the_branch_is_never_overwritten(made: Package, bare: Path, tmp_path: Path) -> None:
    other = repository(tmp_path / "other", {"a": "b\n"})
    git(other, "push", "-q", str(bare), f"main:{made.branch}")
    before = branches(bare)
    assert made.git is not None
    with pytest.raises(PullRequestRefused, match="holds other commits"):
        push(made.git, remote_of(str(bare), tmp_path), made.branch, made.head)
    assert branches(bare) == before


def test_a_remote_is_pushed_once_and_then_left_alone(made: Package, bare: Path) -> None:
    assert made.git is not None
    remote = remote_of(str(bare), bare.parent)
    assert push(made.git, remote, made.branch, made.head)
    assert not push(made.git, remote, made.branch, made.head)
    assert git(bare, "show", f"{made.branch}:app/server.py") + "\n" == FASTER


@pytest.mark.parametrize("address", ["", "-oProxyCommand=x", "ext::sh -c x", "--upload-pack=x", "./nowhere"])
def test_an_address_that_would_run_something_or_leads_nowhere_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(UsageError):
        remote_of(address, tmp_path)


def test_a_protocol_that_is_not_for_this_is_refused_by_git(made: Package) -> None:
    assert made.git is not None
    for address in ("git://127.0.0.1/x", "http://example.invalid/x.git"):
        with pytest.raises(ConfigError, match="the remote cannot be used"):
            push(made.git, Remote(address=address), made.branch, made.head)


def test_the_token_of_a_remote_is_shown_by_nothing() -> None:
    remote = Remote(address="https://github.com/a/b.git", user="x-access-token", token=TOKEN)
    assert TOKEN not in repr(remote)
