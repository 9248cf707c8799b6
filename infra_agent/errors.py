"""The one exception tree, and the exit code of each leaf.

    InfraAgentError                70  internal
    ├── UsageError                  2  the command, goal or configuration is wrong
    │   ├── GoalError               2  the goal text leaves something open
    │   ├── ConfigError             2  infra-agent.toml, a playbook or a script is wrong
    │   ├── ChangeRefused           2  a code change that may not be, or cannot be, applied
    │   ├── EndpointError           2  the language model's endpoint cannot be used
    │   ├── RunNotFound             2  no such run
    │   ├── ApprovalRefused         2  a person's approval does not hold for what would be applied
    │   ├── PullRequestRefused      2  a pull request may not be opened there, or is not ours to change
    │   └── ForgeError              2  GitHub or GitLab refused, or did not answer
    ├── LedgerError                 1  a ledger does not verify
    ├── ApprovalPending             3  a person has not decided yet
    ├── NotProvable                 1  the goal asks for less than can be proved here in its budget
    ├── BudgetSpent                 4  the goal's budget is used up
    ├── SandboxUnavailable          5  a promised wall cannot be held
    ├── StackError                  6  the stack failed
    │   ├── StackStartError         6  died, hung or never became healthy
    │   ├── StackIdentityError      6  another model answers than was asked for
    │   ├── StackSetupError         6  environment or weights cannot be prepared
    │   └── PortInUse               6  the port is taken
    └── Interrupted               130  stopped by the user

An error names the cause (`message`), the place (`where`), the evidence (`lines`) and the next step (`hint`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """Exit codes of every command."""

    OK = 0
    NOT_MET = 1
    USAGE = 2
    WAITING = 3
    BUDGET = 4
    SANDBOX = 5
    STACK = 6
    INTERNAL = 70
    INTERRUPTED = 130


class InfraAgentError(Exception):
    """Base of all errors that a user may see."""

    exit_code: ClassVar[ExitCode] = ExitCode.INTERNAL
    kind: ClassVar[str] = "internal"

    def __init__(self, message: str, *, where: str = "", hint: str = "", lines: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        self.lines = tuple(lines)


class UsageError(InfraAgentError):
    """The command cannot be carried out as written."""

    exit_code = ExitCode.USAGE
    kind = "usage"


class GoalError(UsageError):
    """The goal leaves metric, target or a unit open, or contradicts itself."""

    kind = "goal"


class ConfigError(UsageError):
    """A configuration file has an unknown key or a value that cannot be."""

    kind = "config"


class ChangeRefused(UsageError):
    """A patch was refused and nothing of it applied. `reason` is one of `changes.refusal.Reason`."""

    kind = "change_refused"

    def __init__(
        self, message: str, *, reason: str, where: str = "", hint: str = "", lines: Sequence[str] = ()
    ) -> None:
        super().__init__(message, where=where, hint=hint, lines=lines)
        self.reason = reason


class EndpointError(UsageError):
    """A language model's endpoint gave no answer.

    `again`: another try may help, after what `retry_after` (a header's text) says; `status` is the HTTP status, 0 when
    there was none; `billed`: the endpoint may have worked on it, and charge for it, all the same.
    """

    kind = "endpoint"

    def __init__(
        self, message: str, *, where: str = "", hint: str = "", status: int = 0, again: bool = False,
        retry_after: str = "", billed: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(message, where=where, hint=hint)
        self.status = status
        self.again = again
        self.retry_after = retry_after
        self.billed = billed


class RunNotFound(UsageError):
    """No run has this id."""

    kind = "run_not_found"


class ApprovalRefused(UsageError):
    """An approval does not hold for what would be applied now. `what` names the digest or rule that it breaks."""

    kind = "approval_refused"

    def __init__(self, what: str, *, where: str = "", hint: str = "", lines: Sequence[str] = ()) -> None:
        super().__init__(f"approval refused: {what}", where=where, hint=hint, lines=lines)
        self.what = what


class PullRequestRefused(UsageError):
    """The target's rules forbid it, the body lacks what they demand, or a person has the request in hand."""

    kind = "pull_request_refused"


class ForgeError(UsageError):
    """A forge refused a request or gave no answer; nothing half-made is left."""

    kind = "forge"


class ApprovalPending(InfraAgentError):
    """A proved change waits for a person, and nobody has decided."""

    exit_code = ExitCode.WAITING
    kind = "approval_pending"


class LedgerError(InfraAgentError):
    """The event chain is broken."""

    exit_code = ExitCode.NOT_MET
    kind = "ledger"


class NotProvable(InfraAgentError):
    """The effect that is asked for is smaller than what can be proved in the budget."""

    exit_code = ExitCode.NOT_MET
    kind = "not_provable"


class BudgetSpent(InfraAgentError):
    """The goal's budget is used up."""

    exit_code = ExitCode.BUDGET
    kind = "budget"


class SandboxUnavailable(InfraAgentError):
    """No sandbox can be had on this machine."""

    exit_code = ExitCode.SANDBOX
    kind = "sandbox"


class StackError(InfraAgentError):
    """The system under test failed."""

    exit_code = ExitCode.STACK
    kind = "stack"


class StackStartError(StackError):
    """The engine died while starting, or never became ready."""

    kind = "stack_start"


class StackIdentityError(StackError):
    """The server answers for another model than asked."""

    kind = "stack_identity"


class StackSetupError(StackError):
    """The stack's environment or weights cannot be prepared."""

    kind = "stack_setup"


class PortInUse(StackError):
    """Another process listens on the port."""

    kind = "port_in_use"


class Interrupted(InfraAgentError):
    """The user stopped the command."""

    exit_code = ExitCode.INTERRUPTED
    kind = "interrupted"
