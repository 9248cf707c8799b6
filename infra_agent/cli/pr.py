"""`infra-agent pr`: the package of a run's accepted changes, and on request a draft that people decide on."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra_agent.cli.options import JsonFlag, RunRef, runs_root
from infra_agent.cli.output import print_json, print_lines
from infra_agent.cli.streams import hide, masker_of
from infra_agent.errors import ConfigError, ExitCode, PullRequestRefused, UsageError

if TYPE_CHECKING:
    from infra_agent.publish.pull_request.forge import Forge
    from infra_agent.publish.pull_request.package import Order, Package
    from infra_agent.publish.pull_request.remote import Remote
    from infra_agent.publish.pull_request.rules import RuleSet

TOKENS = {"github": ("GITHUB_TOKEN", "GH_TOKEN"), "gitlab": ("GITLAB_TOKEN",)}
HOSTS = {"github": "github.com", "gitlab": "gitlab.com"}
USERS = {"github": "x-access-token", "gitlab": "oauth2"}


def pr(
    ref: RunRef = "last",
    repo: Annotated[
        Path | None, typer.Option("--repo", help="Checkout to put the branch on. Default: the sources'.")
    ] = None,
    source: Annotated[str, typer.Option("--source", help="Which source, when several are changed.")] = "",
    remote: Annotated[
        str, typer.Option("--remote", help="Push the branch there: directory or address of a git remote.")
    ] = "",
    open_at: Annotated[
        str, typer.Option("--open", help="Open a draft: github:OWNER/NAME or gitlab:GROUP/PROJECT.")
    ] = "",
    api_url: Annotated[
        str, typer.Option("--api-url", help="Address of the forge's API, when it is not the public one.")
    ] = "",
    head_owner: Annotated[
        str, typer.Option("--head-owner", help="GitHub: owner of the fork that --remote pushes to.")
    ] = "",
    base: Annotated[str, typer.Option("--base", help="Branch to propose it for. Default: the target's own.")] = "",
    branch: Annotated[str, typer.Option("--branch", help="Name of the new branch. Default: infra-agent/RUN.")] = "",
    config_path: Annotated[str, typer.Option("--config-path", help="Folder for launch settings in the branch.")] = "",
    rules: Annotated[
        str, typer.Option("--rules", help="vllm, sglang, llama.cpp, general. Default: by the target.")
    ] = "",
    not_duplicate: Annotated[
        str, typer.Option("--not-duplicate", help="Why it duplicates nothing; you have looked.")
    ] = "",
    policy_allows: Annotated[
        str,
        typer.Option("--policy-allows", help="Why a sentence of the target's rules does not forbid it; it is kept."),
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show title, body and findings; write and send nothing.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Package what a run has accepted: branch, body, evidence; with --remote or --open send it, always as a draft.

    Only routine and approved changes are in it. Nothing is force-pushed or merged, your checkout is not changed, and a
    second call updates the same draft. Exit 0 done, 1 packaged but not fit to open (see `missing`), 2 refused.
    JSON keys: folder, title, branch, base, base_branch, commits[], rules, missing[], refused, pushed, draft; with
    --dry-run also body.
    """  # fmt: skip
    from infra_agent.ledger.runs import find_run

    options = _Options(
        repo=repo, source=source, remote=remote, open_at=open_at, api_url=api_url, head_owner=head_owner, base=base,
        branch=branch, config_path=config_path, rules=rules, not_duplicate=not_duplicate, policy_allows=policy_allows,
    )  # fmt: skip
    run_dir = find_run(runs_root(), ref)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="infra-agent-pr-"))) if dry_run else None
        return _pr(options, run_dir, folder, as_json)


class _Options:
    """The command's options as they were given."""

    def __init__(self, **given: Any) -> None:
        self.repo: Path | None = given["repo"]
        self.source: str = given["source"]
        self.remote: str = given["remote"]
        self.open_at: str = given["open_at"]
        self.api_url: str = given["api_url"]
        self.head_owner: str = given["head_owner"]
        self.base: str = given["base"]
        self.branch: str = given["branch"]
        self.config_path: str = given["config_path"]
        self.rules: str = given["rules"]
        self.not_duplicate: str = given["not_duplicate"]
        self.policy_allows: str = given["policy_allows"]


def _pr(options: _Options, run_dir: Path, scratch: Path | None, as_json: bool) -> int:
    from infra_agent.ledger.approvals import Authority
    from infra_agent.publish.publish import load_state
    from infra_agent.publish.pull_request.package import FOLDER, Order, make_package
    from infra_agent.review.local import local_public_key

    host, name = _open_at(options.open_at)
    token = _token(host) if host and scratch is None else ""
    remote = _remote(options, host, name, token)
    order = Order(
        run_dir=run_dir,
        folder=run_dir / FOLDER if scratch is None else scratch / FOLDER,
        authority=Authority(local_key=local_public_key()),
        rules=_rules(options, name),
        repo=options.repo,
        source=options.source,
        remote=remote,
        base_branch=options.base,
        branch=options.branch,
        config_path=options.config_path,
        not_duplicate=options.not_duplicate,
        policy_allows=options.policy_allows,
    )
    package = make_package(order, load_state(run_dir), masker_of(sys.stdout))
    if scratch is not None:
        return _show(package, as_json)
    document: dict[str, Any] = {"folder": str(package.folder), **package.document(), "pushed": "", "draft": None}
    if remote is not None or host:
        document |= _send(options, order, package, remote, host, name, token)
    if as_json:
        print_json(document)
    else:
        print_lines(_lines(package, document))
    return int(ExitCode.NOT_MET if package.missing or package.refused else ExitCode.OK)


def _send(
    options: _Options, order: Order, package: Package, remote: Remote | None, host: str, name: str, token: str
) -> dict[str, Any]:
    """Push, and open or update the draft; what came of it."""
    from infra_agent.publish.pull_request import remote as remotes

    if package.git is None or not package.head:
        raise UsageError("there is no branch to send", hint="name the repository with --repo")
    assert remote is not None
    if not host:
        created = remotes.push(package.git, remote, package.branch, package.head)
        return {"pushed": remote.address, "new_branch": created}
    if package.refused:
        raise PullRequestRefused(package.refused, where=str(package.folder), hint="the package is yours to use")
    if package.missing:
        lines = [f"{finding.says}. {finding.citation}".strip() for finding in package.missing]
        hint = f"write into {package.folder / 'HUMAN.md'}, use --not-duplicate, or open it yourself with body.md"
        raise PullRequestRefused("the body lacks what the target's rules ask for", lines=lines, hint=hint)
    return _open(options, package, remote, host, name, token)


def _open(options: _Options, package: Package, remote: Remote, host: str, name: str, token: str) -> dict[str, Any]:
    import httpx

    from infra_agent.publish.pull_request.draft import open_draft
    from infra_agent.publish.pull_request.forge import Target

    with httpx.Client() as client:
        forge = _forge(client, options, host, name, token)
        target = Target(
            title=package.title,
            body=package.body,
            head=package.branch,
            base=options.base or forge.check(),
        )
        assert package.git is not None
        opened = open_draft(forge, target, package.git, remote, package.head)
    draft = {"number": opened.draft.number, "url": opened.draft.url, "created": opened.created}
    return {"pushed": remote.address, "draft": draft}


def _forge(client: Any, options: _Options, host: str, name: str, token: str) -> Forge:
    from infra_agent.publish.pull_request.github import github
    from infra_agent.publish.pull_request.gitlab import gitlab

    if host == "github":
        return github(client, name, token, options.api_url, options.head_owner)
    return gitlab(client, name, token, options.api_url)


def _open_at(text: str) -> tuple[str, str]:
    if not text:
        return "", ""
    host, _, name = text.partition(":")
    parts = name.split("/")
    fits = all(part and part[0] not in ".-" for part in parts) and (
        len(parts) == 2 or (host == "gitlab" and len(parts) > 2)
    )
    if host not in TOKENS or not fits or not all(c.isalnum() or c in "/._-" for c in name):
        raise UsageError(f"no target: {text!r}", where="--open", hint="github:OWNER/NAME or gitlab:GROUP/PROJECT")
    return host, name


def _token(host: str) -> str:
    """From the environment, else from the keyring when the package `keyring` is there. It is hidden from here on."""
    for variable in TOKENS[host]:
        if os.environ.get(variable):
            hide([os.environ[variable]])
            return os.environ[variable]
    found: str | None = None
    try:
        import keyring

        found = keyring.get_password("infra-agent", HOSTS[host])
    except Exception:  # No package, or no store on this machine: each back end has errors of its own.
        pass
    if not found:
        hint = f"set {TOKENS[host][0]}, or: keyring set infra-agent {HOSTS[host]}"
        raise ConfigError(f"no token for {host}", where="environment and keyring", hint=hint)
    hide([found])
    return found


def _remote(options: _Options, host: str, name: str, token: str) -> Remote | None:
    from infra_agent.publish.pull_request.remote import Remote, remote_of

    if options.remote:
        return remote_of(options.remote, Path.cwd())
    if not host:
        return None
    return Remote(address=f"https://{HOSTS[host]}/{name}.git", user=USERS[host], token=token)


def _rules(options: _Options, name: str) -> RuleSet:
    from infra_agent.publish.pull_request.rules import GENERAL, KNOWN, rules_by_name, rules_for

    if options.rules:
        found = rules_by_name(options.rules)
        if found is None:
            known = ", ".join(each.name for each in (GENERAL, *KNOWN))
            raise UsageError(f"no rules of this name: {options.rules!r}", where="--rules", hint=f"known: {known}")
        # Naming milder rules does not open a door that the target's own have closed.
        own = rules_for(name)
        return own if own.forbids is not None else found
    return rules_for(name or options.remote)


def _show(package: Package, as_json: bool) -> int:
    """A dry run: what would be read, and what is missing."""
    document = {"folder": "", **package.document(), "pushed": "", "draft": None, "body": package.body}
    if as_json:
        print_json(document)
    else:
        print_lines([package.title, "", *package.body.rstrip("\n").split("\n"), "", *_findings(package)])
    return int(ExitCode.NOT_MET if package.missing or package.refused else ExitCode.OK)


def _lines(package: Package, document: dict[str, Any]) -> list[str]:
    lines = [f"package  {package.folder}", f"title    {package.title}"]
    if package.commits:
        on = f" on {package.base[:12]}" if package.base else ""
        lines.append(f"branch   {package.branch}, {len(package.commits)} commits{on}")
    else:
        lines.append("branch   none: name a repository with --repo or --remote")
    if document["pushed"]:
        lines.append(f"pushed   {document['pushed']}")
    if document["draft"]:
        lines.append(f"draft    {document['draft']['url']}")
    return [*lines, *_findings(package)]


def _findings(package: Package) -> list[str]:
    lines = [f"missing  {finding.says}" for finding in package.missing]
    return [*lines, *([f"refused  {package.refused}"] if package.refused else [])]
