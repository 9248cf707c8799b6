"""The people of `[review]`: OpenSSH's allowed_signers file, and whether a table can ever be satisfied.

Covered: principals, `namespaces`, `valid-after` and `valid-before`, comments.
Not covered: certificate authorities and principals with wildcards; both are refused, because they name nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from infra_agent.errors import ConfigError
from infra_agent.stack import toml
from infra_agent.stack.model import ReviewerEntry, ReviewTable
from infra_agent.stack.publickey import KEY_TYPES, read_key_line

NAMESPACE = "infra-agent-approval"
"""What a signature of an approval is made for; one made for anything else is no approval."""
_TIME = re.compile(r"(\d{8})(\d{4})?(\d{2})?(Z?)")
_OPTIONS = ("namespaces", "valid-after", "valid-before")
_OPTION = re.compile(r'(?P<name>[A-Za-z-]+)(?:="(?P<quoted>[^"]*)"|=(?P<plain>[^\s,"]*))?(?:,|$)')
_LINE = re.compile(
    r'(?P<principals>"[^"]+"|[^\s"]+)\s+'
    r'(?:(?P<options>[A-Za-z-]+(?:="[^"]*"|=[^\s,"]*)?(?:,[A-Za-z-]+(?:="[^"]*"|=[^\s,"]*)?)*)\s+)?'
    rf"(?P<kind>{'|'.join(map(re.escape, KEY_TYPES))})\s+(?P<key>[A-Za-z0-9+/=]+)(?:\s.*)?"
)


def review_problem(table: ReviewTable) -> str | None:
    """Why nobody could ever approve under this table, or what makes a person ambiguous; None when it is sound."""
    if not table.reviewers:
        return "[review] names no reviewers, so nobody could approve"
    owners: dict[bytes, str] = {}
    for entry in table.reviewers:
        try:
            blob = read_key_line(entry.key).blob
        except ValueError as error:
            return f"review.reviewers, {entry.name}: {error}"
        if owners.setdefault(blob, entry.name) != entry.name:
            return f"{owners[blob]} and {entry.name} have the same key"
    for risk, needed in table.required.items():
        able = {entry.name for entry in table.reviewers if entry.classes is None or risk in entry.classes}
        if needed > len(able):
            return f"review.required asks for {needed} persons for {risk}, and {len(able)} may approve it"
    return None


def read_allowed_signers(path: Path) -> tuple[ReviewerEntry, ...]:
    """The people of an allowed_signers file who may sign approvals. ConfigError names the line."""
    return tuple(_entries(toml.read_text(path), path))


def _entries(text: str, path: Path) -> Iterator[ReviewerEntry]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            entry = _entry(line)
        except ValueError as error:
            raise ConfigError(f"allowed_signers: {error}", where=f"{path}:{number}") from None
        if entry is not None:
            yield entry


def _entry(line: str) -> ReviewerEntry | None:
    match = _LINE.fullmatch(line.strip())
    if match is None:
        raise ValueError("not `principals [options] key`, or a key type that cannot sign an approval")
    names = match["principals"].strip('"').split(",")
    if any(character in name for name in names for character in "*?!"):
        raise ValueError(f"{match['principals']} is a pattern; name a person")
    options = _options(match["options"] or "")
    patterns = options.get("namespaces", "*").split(",")
    if not any(fnmatchcase(NAMESPACE, pattern) for pattern in patterns):
        return None
    key = f"{match['kind']} {match['key']}"
    read_key_line(key)
    return ReviewerEntry(
        name=names[0], key=key, valid_from=_moment(options.get("valid-after")),
        valid_until=_moment(options.get("valid-before")),
    )  # fmt: skip


def _options(text: str) -> Mapping[str, str]:
    """Name → value. An option that is not known may restrict the key, so it is never skipped."""
    found: dict[str, str] = {}
    for match in _OPTION.finditer(text):
        name = match["name"].lower()
        if name not in _OPTIONS:
            raise ValueError(f"option {name!r} is not supported")
        found[name] = match["quoted"] if match["quoted"] is not None else match["plain"] or ""
    return found


def _moment(text: str | None) -> str | None:
    """YYYYMMDD[HHMM[SS]][Z]; without Z in local time, as OpenSSH has it."""
    if text is None:
        return None
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no time of the form YYYYMMDD[HHMM[SS]][Z]")
    plain = datetime.strptime(f"{match[1]}{match[2] or '0000'}{match[3] or '00'}", "%Y%m%d%H%M%S")  # noqa: DTZ007
    moment = plain.replace(tzinfo=UTC) if match[4] else plain.astimezone()
    return moment.isoformat()
