"""The tools: the reading ones, and one for each action, made from the action's own type.

Covered: closed input schemas (an unknown argument is an error, never ignored), annotations, errors that a model can act
on, progress while a launch takes its time. There is no tool that approves, and a test says so.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field, ValidationError

from infra_agent.agent.actions import ACTION, ACTIONS, Action
from infra_agent.agent.quote import inline
from infra_agent.agent.refusals import ActionError
from infra_agent.errors import InfraAgentError
from infra_agent.mcp.models import Done, DossierText
from infra_agent.mcp.reading import Reader
from infra_agent.mcp.scope import Scope, act, dossier_text
from infra_agent.redact.masker import NO_SECRETS, Masker

Known = Callable[[], Masker]
M = TypeVar("M", bound=BaseModel)
PROGRESS_S = 2.0
SHOWN_LINES = 3
"""Last lines of an engine's log that an error carries."""
READ_ONLY = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
BEGINS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
"""Reads, but begins the run when it is the first call."""
SCOPED = "Needs a run that the person who started this server opened. "


def all_tools(reader: Reader, scope: Scope, known: Known = lambda: NO_SECRETS) -> list[Tool]:
    """Every tool of the server, reading ones first. `known`: the secrets that no answer may hold."""
    reading = (
        reader.runs_list,
        reader.run_show,
        reader.run_report,
        reader.run_events,
        reader.playbook_list,
        reader.stack_show,
    )
    tools = [_tool(_readable(method, known), READ_ONLY, inspect.getdoc(method) or "") for method in reading]
    tools.append(_tool(_dossier(scope, known), BEGINS, SCOPED + (DossierText.__doc__ or "")))
    tools += [_tool(_action(model, scope, known), CHANGES, SCOPED + _summary(model)) for model in ACTIONS]
    return tools


def needs_scope(tool: Tool) -> bool:
    """Whether a tool works only on an opened run."""
    return tool.description.startswith(SCOPED)


def _tool(function: Callable[..., Any], annotations: ToolAnnotations, description: str) -> Tool:
    tool = Tool.from_function(
        function,
        title=function.__name__.replace("_", " ").capitalize(),
        description=description,
        annotations=annotations,
        structured_output=True,
    )
    # The SDK drops arguments that it does not know; a client that sends one is told instead.
    arguments = tool.fn_metadata.arg_model
    arguments.model_config = {**arguments.model_config, "extra": "forbid"}
    arguments.model_rebuild(force=True)
    return tool.model_copy(update={"parameters": arguments.model_json_schema(by_alias=True)})


def _readable(method: Callable[..., BaseModel], known: Known) -> Callable[..., Any]:
    """A reading tool whose foreseeable errors reach the client with their hint."""

    @functools.wraps(method)
    def read(**arguments: Any) -> BaseModel:
        with _told(known):
            return masked(method(**arguments), known())

    return read


def _dossier(scope: Scope, known: Known) -> Callable[..., Awaitable[DossierText]]:
    async def dossier() -> DossierText:
        with _told(known):
            return masked(await scope.call(dossier_text), known())

    return dossier


def _action(model: type[BaseModel], scope: Scope, known: Known) -> Callable[..., Awaitable[Done]]:
    """A tool with the fields of an action as its arguments."""
    kind = str(model.model_fields["kind"].default)

    async def carry_out(ctx: Context, **arguments: Any) -> Done:
        with _told(known):
            action = _validated(kind, {name: _plain(value) for name, value in arguments.items()})
            work = asyncio.ensure_future(scope.call(lambda run: act(run, action)))
            return masked(await _with_progress(ctx, kind, work), known())

    carry_out.__name__ = kind
    fields = {name: field for name, field in model.model_fields.items() if name != "kind"}
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=Context)
    signature = inspect.Signature([context, *(_parameter(n, f) for n, f in fields.items())], return_annotation=Done)
    carry_out.__signature__ = signature  # type: ignore[attr-defined]
    carry_out.__annotations__ = {"ctx": Context, "return": Done}
    return carry_out


def _validated(kind: str, given: dict[str, Any]) -> Action:
    """The action; what its fields allow one by one but not together is told like any other refusal."""
    try:
        return ACTION.validate_python({"kind": kind, **given})
    except ValidationError as error:
        said = "; ".join(entry["msg"] for entry in error.errors(include_url=False, include_context=False))
        raise ActionError(f"{kind} is not well formed: {said}", code="bad_fields") from None


def _parameter(name: str, field: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.is_required() else field.default
    annotation = field.rebuild_annotation()
    if field.description:
        annotation = Annotated[annotation, Field(description=field.description)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump()
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


async def _with_progress(ctx: Context, kind: str, work: asyncio.Future[Done]) -> Done:
    """Wait, and tell the client every few seconds that the action is still going on."""
    started_s = time.monotonic()
    while True:
        done, _ = await asyncio.wait({work}, timeout=PROGRESS_S)
        if done:
            return work.result()
        await ctx.report_progress(time.monotonic() - started_s, message=f"{kind} is going on")


def masked(answer: M, masker: Masker) -> M:
    """The answer without secrets."""
    return type(answer).model_validate(masker.value(answer.model_dump()))


@contextmanager
def _told(known: Known) -> Iterator[None]:
    """Errors of this program become errors that the client's model can read and act on."""
    try:
        yield
    except InfraAgentError as error:
        code = getattr(error, "code", "") or error.kind
        said = ", ".join(inline(line, 200) for line in error.lines[-SHOWN_LINES:])
        where = f"at {error.where}" if error.where else ""
        parts = [f"{code}: {error.message}", f"last lines {said}" if said else "", where, error.hint]
        raise ToolError(known().text("; ".join(filter(None, parts)))) from error


def _summary(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").split())
