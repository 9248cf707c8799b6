"""`infra-agent pr` from its entry point: package, plain remote, drafts on a local forge, tokens that nobody sees."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from publish.pull_request import fake_forge
from publish.pull_request.code_runs import FASTER, SERVER, code_run, diff, git, repository

from infra_agent.cli.main import main
from infra_agent.ledger.chain import LEDGER_FILE

Call = Callable[..., "Done"]
TOKEN = "ghp_canary0123456789abcdefABCDEF"


@dataclass
class Done:
    """How a call of the command ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def pr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """The program's own entry point, in a folder with runs, without the tokens of whoever runs the tests."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if "TOKEN" in name]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("INFRA_AGENT_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")

    def call(*words: str, **env: str) -> Done:
        before = signal.getsignal(signal.SIGTERM)
        with monkeypatch.context() as more:
            for name, value in env.items():
                more.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                main(["pr", *words])
        signal.signal(signal.SIGTERM, before)
        shown = capsys.readouterr()
        return Done(int(str(ended.value.code)), shown.out, shown.err)

    return call


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a finished run that changed code, and an empty remote."""
    upstream = repository(tmp_path / "project", {"app/server.py": SERVER})
    code_run(tmp_path, diff(SERVER, FASTER), source=upstream / "app")
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "remote.git")], check=True)
    return tmp_path


def test_a_run_becomes_a_branch_on_a_plain_remote_and_the_same_one_again(pr: Call, project: Path) -> None:
    first = pr("last", "--remote", "remote.git", "--json")
    assert first.returncode == 0, first.stderr
    document = json.loads(first.stdout)
    assert (document["missing"], document["refused"], document["new_branch"]) == ([], "", True)
    again = json.loads(pr("--remote", "remote.git", "--json").stdout)
    assert again["commits"] == document["commits"]
    assert again["new_branch"] is False
    assert git(project / "remote.git", "show", f"{document['branch']}:app/server.py") + "\n" == FASTER
    lines = pr("--remote", "remote.git").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["package", "title", "branch", "pushed"]


def test_a_dry_run_shows_the_body_and_writes_nothing(pr: Call, project: Path) -> None:
    done = pr("--dry-run")
    assert done.returncode == 0, done.stderr
    assert "## Change and risk" in done.stdout
    assert not (next((project / "runs").iterdir()) / "pull_request").exists()


def test_a_draft_is_opened_with_the_token_of_the_environment_which_is_written_nowhere(pr: Call, project: Path) -> None:
    with fake_forge.running("github") as forge:
        flags = ("--open", "github:owner/name", "--api-url", forge.url, "--remote", "remote.git")
        done = pr(*flags, "--not-duplicate", "I searched the open requests", GITHUB_TOKEN=TOKEN)
        assert done.returncode == 0, done.stderr
        assert forge.faults == []
        assert forge.open[0]["draft"] is True
        assert forge.requests[0]["headers"]["authorization"] == f"Bearer {TOKEN}"
        assert f"draft    {forge.url}/owner/name/pull/7" in done.stdout
        forge.failures.append(fake_forge.Failure("GET", "/repos/owner/name$", 401, body={"message": f"bad {TOKEN}"}))
        refused = pr(*flags, "--json", GITHUB_TOKEN=TOKEN)
    assert refused.returncode == 2
    assert json.loads(refused.stdout)["error"]["kind"] == "forge"
    assert TOKEN not in done.stdout + done.stderr + refused.stdout + refused.stderr
    written = [path for path in project.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]
    assert written == []


def test_a_draft_on_gitlab(pr: Call, project: Path) -> None:
    with fake_forge.running("gitlab") as forge:
        flags = ("--open", "gitlab:group/sub/name", "--api-url", forge.url, "--remote", "remote.git", "--json")
        done = pr(*flags, GITLAB_TOKEN=TOKEN)
        assert done.returncode == 0, done.stderr
        assert forge.faults == []
        assert json.loads(done.stdout)["draft"]["number"] == 3


def test_a_project_that_wants_a_person_gets_nothing_until_one_has_written(pr: Call, project: Path) -> None:
    with fake_forge.running("github") as forge:
        flags = ("--open", "github:owner/name", "--rules", "vllm", "--api-url", forge.url, "--remote", "remote.git")
        done = pr(*flags, "--json", GITHUB_TOKEN=TOKEN)
        error = json.loads(done.stdout)["error"]
        assert (done.returncode, error["kind"]) == (2, "pull_request_refused")
        assert any("holds words of the person" in line for line in error["lines"])
        assert any("AGENTS.md" in line for line in error["lines"])
        assert forge.requests == []
        human = next((project / "runs").iterdir()) / "pull_request/HUMAN.md"
        human.write_text("I read every line and ran it on my own machine.\n")
        words = ("--not-duplicate", "no open request is about this pause in answers")
        assert pr(*flags, *words, GITHUB_TOKEN=TOKEN).returncode == 0
        assert len(forge.open) == 1


def test_a_project_that_forbids_it_gets_a_package_and_a_refusal_with_the_citation(pr: Call, project: Path) -> None:
    flags = ("--open", "github:ggml-org/llama.cpp", "--rules", "general", "--remote", "remote.git", "--json")
    done = pr(*flags, GITHUB_TOKEN=TOKEN)
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["kind"]) == (2, "pull_request_refused")
    assert "CONTRIBUTING.md at 012aae3e359d" in error["message"]
    assert (next((project / "runs").iterdir()) / "pull_request/body.md").is_file()
    assert git(project / "remote.git", "for-each-ref") == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--open", "github:owner"), "no target"),
        (("--open", "bitbucket:a/b"), "no target"),
        (("--open", "github:owner/name/../x"), "no target"),
        (("--open", "github:owner/name"), "no token for github"),
        (("--remote", "nowhere"), "no such directory"),
        (("--rules", "mine"), "no rules of this name"),
        (("--source", "x"), "no change in source"),
        (("nothing",), "no run"),
    ],
)
def test_a_mistake_is_a_usage_error_as_text_and_as_json(
    pr: Call, project: Path, words: tuple[str, ...], says: str
) -> None:
    done = pr(*words, "--json")
    assert done.returncode == 2, done.stdout
    assert says in json.loads(done.stdout)["error"]["message"]


def test_a_run_that_accepted_nothing_has_nothing_to_propose(pr: Call, tmp_path: Path) -> None:
    from ledger import ledger_samples as samples

    run_dir = tmp_path / "runs/01KBCDEFGHJKMNPQRSTVWXYZ01"
    samples.write(run_dir, [samples.started(run_id=run_dir.name), samples.phase("done"), samples.finished("not_met")])
    done = pr("--json")
    assert "nothing to propose" in json.loads(done.stdout)["error"]["message"]
    assert (run_dir / LEDGER_FILE).is_file()
