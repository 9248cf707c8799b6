"""Asks a person at a terminal: the confirmation of an approval, and passphrases. Nothing is decided by Enter alone."""

from __future__ import annotations

import getpass
import sys

from infra_agent.cli.output import print_question
from probes.clean import clean


def at_terminal() -> bool:
    """Whether a person can be asked: standard input is a terminal."""
    return sys.stdin.isatty()


def typed(expected: str) -> bool:
    """Whether the person types exactly what is expected. An empty line, the end of input and anything else mean no."""
    print_question(f"Type {expected} and Enter to approve; anything else means no:")
    try:
        line = sys.stdin.readline()
    except UnicodeDecodeError:
        return False
    return line.endswith("\n") and line.strip() == expected


def passphrase(what: str) -> bytes | None:
    """The passphrase of a key, without an echo; None without a terminal to ask at."""
    if not at_terminal():
        return None
    try:
        return getpass.getpass(f"Passphrase of {clean(what)}: ", stream=sys.stderr).encode()
    except EOFError:
        return None


def user_name() -> str:
    """Who sits here, as the label of their key."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "this user"


def new_passphrase() -> bytes | None:
    """A passphrase for a new key, asked for twice. None when the two differ or nobody can be asked."""
    first, second = passphrase("the new key"), passphrase("the new key, again")
    return first if first and first == second else None
