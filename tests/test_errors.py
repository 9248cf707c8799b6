from __future__ import annotations

from infra_agent import errors
from infra_agent.errors import ExitCode, InfraAgentError


def leaves() -> list[type[InfraAgentError]]:
    found: list[type[InfraAgentError]] = []
    open_ = [InfraAgentError]
    while open_:
        cls = open_.pop()
        found.append(cls)
        open_ += [sub for sub in cls.__subclasses__() if sub.__module__ == errors.__name__]
    return found


def test_every_exit_code_of_the_table_has_an_error_or_is_a_result() -> None:
    results = {ExitCode.OK, ExitCode.NOT_MET, ExitCode.WAITING}
    assert {cls.exit_code for cls in leaves()} | results == set(ExitCode)


def test_every_error_has_a_kind_of_its_own() -> None:
    kinds = [cls.kind for cls in leaves()]
    assert len(set(kinds)) == len(kinds)


def test_the_tree_in_the_docstring_names_every_class() -> None:
    assert errors.__doc__ is not None
    missing = [cls.__name__ for cls in leaves() if cls.__name__ not in errors.__doc__]
    assert missing == []
