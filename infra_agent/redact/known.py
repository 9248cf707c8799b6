"""Which values are secret: by the name they go under, and by their place in a command line or an address.

Covered: environment variables and settings named like a key, token, password or credential; the value after a flag of
such a name (`--api-key X`, `--api-key=X`); passwords inside addresses (`https://user:password@host`).
Not covered: secrets under a name that says nothing, and what stands inside files that a variable only points at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

MASK = "***"
_SECRET_NAME = re.compile(
    r"(?<!MON)(?<!HOT)KEY(?!BOARD|MAP|WORD|FRAME)|TOKEN(?!I[SZ])|SECRET|PASSW|PASSPHRASE|CREDENTIAL|CREDS"
    r"|AUTH(?!ORS?(?:$|[_-]))|COOKIE|JWT|BEARER|(?:^|[_-])(?:PASS|PAT|DSN|SAS)(?:$|[_-])",
    re.IGNORECASE,
)
_PLAIN_WORDS = frozenset(
    {"", "true", "false", "yes", "no", "on", "off", "none", "null", "auto", "default", "enabled", "disabled"}
    | {"required", "optional", "anonymous", "undefined", "placeholder", "not-needed"}
)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_TOKEN_LIKE = 16
"""A user name of this length that stands alone before `@` is a token; `git` and `ubuntu` are not."""
_COUNTS = re.compile(r"TOKENS|(?:MAX|MIN|NUM|N)[_-].*TOKEN", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://(?P<user>[^\s/?#@:]*)(?::(?P<password>[^\s/?#]*))?@", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Whether a variable, setting or flag of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def is_secret(name: str, value: str) -> bool:
    """Whether this value of this variable is one: switches, token counts and paths of files that exist are not."""
    if not is_secret_name(name) or value.strip().lower() in _PLAIN_WORDS:
        return False
    if _NUMBER.fullmatch(value) and (_COUNTS.search(name) or len(value) < 4):
        return False
    return not _is_path(value)


def secret_values(*environments: Mapping[str, str]) -> frozenset[str]:
    """All secrets of these variables, short ones too (a `Masker` leaves those out)."""
    found: set[str] = set()
    for environment in environments:
        for name, value in environment.items():
            found.update(address_secrets(value))
            if is_secret(name, value):
                found.add(value)
    return frozenset(found)


def hidden_env(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment as it may be shown: secrets replaced, however short, and taken out of addresses."""
    return {name: MASK if is_secret(name, value) else _hidden_address(value) for name, value in environment.items()}


def hidden_argv(argv: Sequence[str]) -> list[str]:
    """The command line as it may be shown."""
    words = list(argv)
    for index, start in flag_places(argv):
        words[index] = words[index][:start] + MASK
    return [_hidden_address(word) for word in words]


def flag_values(argv: Sequence[str]) -> frozenset[str]:
    """Secrets in a command line, with those in its addresses."""
    found = {argv[index][start:] for index, start in flag_places(argv)}
    for word in argv:
        found.update(address_secrets(word))
    return frozenset(found)


def flag_places(argv: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where a command line holds a secret: number of the word, and where in the word it begins."""
    for index, word in enumerate(argv):
        if not word.startswith("-"):
            continue
        flag, equals, value = word.partition("=")
        following = argv[index + 1] if index + 1 < len(argv) else ""
        if equals and is_secret(flag, value):
            yield index, len(flag) + 1
        elif not equals and not following.startswith("-") and is_secret(flag, following):
            yield index + 1, 0


def address_secrets(text: str) -> Iterator[str]:
    """Passwords in addresses, and user names that stand where a password should (`https://TOKEN@host`)."""
    for match in _IN_ADDRESS.finditer(text):
        user, password = match["user"], match["password"]
        if password:
            yield password
            yield unquote(password)
            yield f"{user}:{password}"
        elif len(user) >= _TOKEN_LIKE and password is None:
            yield user


def _hidden_address(text: str) -> str:
    for secret in address_secrets(text):
        text = text.replace(secret, MASK)
    return text


def _is_path(value: str) -> bool:
    """Whether the value names a file that is there: the name is no secret, whatever the file holds."""
    try:
        return value.startswith(("/", "~", "./")) and Path(value).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False
