"""The command `infra-agent`: the tree of commands, and the one place where errors become exit codes."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

import typer

from infra_agent import __version__
from infra_agent.cli import doctor, init, mcp, playbook, pr, probe, report, review, run, runs, stack
from infra_agent.cli.output import print_error, print_lines, print_traceback
from infra_agent.cli.streams import masked_streams
from infra_agent.errors import ExitCode, InfraAgentError, Interrupted, UsageError
from infra_agent.redact.known import flag_values, secret_values

EPILOG = (
    "Exit codes: 0 goal met or command done · 1 finished, goal not met · 2 usage or configuration · "
    "3 waiting for approval · 4 budget spent · 5 sandbox unavailable · 6 stack failed · 70 internal · 130 interrupted"
)

app = typer.Typer(
    name="infra-agent",
    help="Tunes an LLM inference stack: measures, proves every change, keeps what is proven.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
)
app.command("run")(run.run)
app.command("init")(init.init)
app.command("doctor")(doctor.doctor)
app.command("report")(report.report)
app.command("mcp")(mcp.mcp)
app.command("pr")(pr.pr)
app.add_typer(runs.app, name="runs")
app.add_typer(review.app, name="review")
app.add_typer(stack.app, name="stack")
app.add_typer(playbook.app, name="playbook")
app.add_typer(probe.app, name="probe")


def _show_version(wanted: bool) -> None:
    if wanted:
        print_lines([f"infra-agent {__version__}"])
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", help="Show the version.", callback=_show_version, is_eager=True),
) -> None:
    pass


def main(argv: list[str] | None = None) -> None:
    """Entry point. No traceback reaches a user unless INFRA_AGENT_TRACEBACK=1."""
    args = sys.argv[1:] if argv is None else argv
    as_json = "--json" in args
    signal.signal(signal.SIGTERM, _terminate)
    with masked_streams(secret_values(os.environ) | flag_values(args)):
        code = _run(args, as_json)
    sys.exit(code)


def _run(args: list[str], as_json: bool) -> int:
    try:
        code = app(args=args, prog_name="infra-agent", standalone_mode=False)
    except InfraAgentError as error:
        print_error(error, as_json)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print_error(Interrupted("stopped by the user"), as_json)
        return int(ExitCode.INTERRUPTED)
    except typer.TyperException as error:
        print_error(UsageError(error.format_message(), hint="infra-agent --help"), as_json)
        return int(ExitCode.USAGE)
    except typer.Abort:
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.NOT_MET)
    except Exception as error:
        if os.environ.get("INFRA_AGENT_TRACEBACK"):
            print_traceback()
        _print_internal(error, as_json)
        return int(ExitCode.INTERNAL)
    return code if isinstance(code, int) else int(ExitCode.OK)


def _print_internal(error: Exception, as_json: bool) -> None:
    hint = "INFRA_AGENT_TRACEBACK=1 shows where; please report it with that output"
    wrapped = InfraAgentError(f"internal error: {type(error).__name__}: {error}", hint=hint)
    print_error(wrapped, as_json)


def _terminate(_signum: int, _frame: FrameType | None) -> None:
    """SIGTERM ends the program the way Ctrl-C does: engines are stopped, the run can be resumed."""
    raise KeyboardInterrupt
