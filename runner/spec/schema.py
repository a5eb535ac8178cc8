"""The JSON schema of a spec, for editors; made from the model and committed as `schemas/experiment.schema.json`."""

import json
from typing import Any

from runner.spec.model import Experiment

SCHEMA_FILE = "experiment.schema.json"


def experiment_schema() -> str:
    """The schema as JSON text, with a final newline; the same bytes for the same model."""
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Experiment.model_json_schema(by_alias=True),
        "title": "LLM serving experiment",
    }
    _close(schema)
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _close(schema: Any) -> None:
    """pydantic checks every key against its pattern; in a schema a key that does not match would be free."""
    if isinstance(schema, dict):
        if "patternProperties" in schema:
            schema["additionalProperties"] = False
        for part in schema.values():
            _close(part)
