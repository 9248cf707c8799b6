"""The actions as a model is shown them: tools, one JSON schema, or lines of text; all from the same types."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from infra_agent.agent.actions import ACTIONS

EXAMPLES: Mapping[str, str] = {
    "measure": '{"kind":"measure","probe":"load","target":"stock"}',
    "read": '{"kind":"read","path":"pkg/server.py","start_line":1,"lines":120}',
    "search_code": '{"kind":"search_code","text":"batch_size","files":"*.py"}',
    "consult": '{"kind":"consult","name":"serial-admission"}',
    "recall": '{"kind":"recall","section":"observations","start":1}',
    "hypothesise": '{"kind":"hypothesise","family":"batching","cause":"requests wait for each other",'
    '"place":"the engine\'s admission","refuted_by":"more than one request decodes at a time",'
    '"refuting_probe":"overlap",'
    '"predictions":[{"rung":"load","metric":"output_tok_per_s","low":1.5,"high":3.0}]}',
    "propose": '{"kind":"propose","hypothesis":"H1","changes":[{"parameter":"NAME","value":true}],"base":"best"}',
    "prove": '{"kind":"prove","candidate":"C1"}',
    "search": '{"kind":"search","hypothesis":"H1","parameters":["NAME"],"minutes":2}',
    "conclude": '{"kind":"conclude","reason":"nothing is left to try",'
    '"skipped":[{"family":"dtype","disposition":"not_worth_it","reason":"why","evidence":["O3"]}]}',
}
"""One well-formed action of each kind; NAME stands for a name of the dossier."""


def action_names() -> tuple[str, ...]:
    """All kinds."""
    return tuple(_kind(model) for model in ACTIONS)


@lru_cache(maxsize=1)
def tools() -> tuple[dict[str, Any], ...]:
    """Tool definitions in the form that chat completions take."""
    return tuple(
        {
            "type": "function",
            "function": {"name": _kind(model), "description": _summary(model), "parameters": _arguments(model)},
        }
        for model in ACTIONS
    )


@lru_cache(maxsize=1)
def response_format() -> dict[str, Any]:
    """A schema that holds for exactly one action."""
    variants = []
    for model in ACTIONS:
        schema = _arguments(model)
        properties = {"kind": {"const": _kind(model), "type": "string"}, **schema["properties"]}
        required = ["kind", *schema.get("required", [])]
        variants.append({**schema, "properties": properties, "required": required})
    # An object around the choice: several engines take no choice at the root.
    schema = {"type": "object", "properties": {"action": {"anyOf": variants}}, "required": ["action"]}
    schema["additionalProperties"] = False
    return {"type": "json_schema", "json_schema": {"name": "action", "schema": schema}}


def described() -> str:
    """The actions as text: what each does, and one example."""
    return "\n".join(f"- {_kind(model)}: {_summary(model)}\n  {EXAMPLES[_kind(model)]}" for model in ACTIONS)


def _kind(model: type[BaseModel]) -> str:
    return str(model.model_fields["kind"].default)


def _summary(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").split())


def _arguments(model: type[BaseModel]) -> dict[str, Any]:
    """The fields' schema without `kind`, references inlined, titles left out."""
    schema = model.model_json_schema()
    inlined: dict[str, Any] = _plain(schema, schema.get("$defs", {}))
    inlined.pop("description", None)
    inlined["properties"] = {name: field for name, field in inlined["properties"].items() if name != "kind"}
    inlined["required"] = [name for name in inlined.get("required", []) if name != "kind"]
    return inlined


def _plain(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_plain(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _plain(definitions[str(node["$ref"]).rsplit("/", 1)[-1]], definitions)
    return {
        name: _named(value, definitions) if name == "properties" else _plain(value, definitions)
        for name, value in node.items()
        if name not in ("title", "$defs")
    }


def _named(properties: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """A property may itself be called `title`: names are kept, only their schemas are cleaned."""
    return {name: _plain(schema, definitions) for name, schema in properties.items()}
