"""The JSON Schema of report.json, generated from the model; docs/report.schema.json is its published copy."""

from __future__ import annotations

import json
from pathlib import Path

from infra_agent.publish.report.model import SCHEMA_VERSION, Report


def schema_text() -> str:
    """The schema as it is published."""
    schema = Report.model_json_schema(mode="serialization")
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    document["title"] = f"infra-agent report, version {SCHEMA_VERSION}"
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def write_schema(path: Path) -> None:
    """Publish the schema."""
    path.write_text(schema_text(), encoding="utf-8")
