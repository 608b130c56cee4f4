"""Checks a document against the schema, and against its strict variant in which no field is unknown.
A document of kind dlprobe.stacks, dlprobe.cluster-report, dlprobe.list or dlprobe.doctor is checked against the part of the schema that is its own.

usage: validate_report.py SCHEMA REPORT
exit codes: 0 valid, 1 not (says where), 77 python3-jsonschema is missing
"""

import json
import sys

try:
    from jsonschema import Draft202012Validator
except ImportError:
    sys.exit(77)


def strict(schema):
    """The schema with every object closed."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(value) for key, value in schema.items()}
    if "properties" in schema and schema.get("type") == "object":
        closed["unevaluatedProperties"] = False
    return closed


def of_kind(schema, kind):
    """The part of the schema that describes documents of that kind."""
    part = {"dlprobe.stacks": "stacks", "dlprobe.cluster-report": "cluster", "dlprobe.list": "list",
            "dlprobe.doctor": "doctor"}.get(kind)
    if part is None:
        return schema
    return {"$schema": schema["$schema"], "$ref": f"#/$defs/{part}", "$defs": schema["$defs"]}


def main(schema_path, report_path):
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    with open(report_path, encoding="utf-8") as file:
        report = json.load(file)
    Draft202012Validator.check_schema(schema)
    schema = of_kind(schema, report.get("kind"))
    failed = False
    for name, variant in (("schema", schema), ("strict schema", strict(schema))):
        for error in Draft202012Validator(variant).iter_errors(report):
            print(f"{name}: {error.json_path}: {error.message}"[:500])
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
