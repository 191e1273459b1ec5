"""The format of the answer as the section of the developer message that declares it."""

from __future__ import annotations

from openresponses.v1.settings_pb2 import TextFormat


def response_format_section(text_format: TextFormat) -> str:
    """Return the section, empty where any text will do."""
    match text_format.WhichOneof("format"):
        case "json_schema":
            wanted = text_format.json_schema
            comment = "".join(f"// {line}\n" for line in wanted.description.splitlines())
            return f"# Response Formats\n\n## {wanted.name}\n\n{comment}{wanted.schema}"
        case "json_object":
            return '# Response Formats\n\n## json_object\n\n{"type":"object"}'
        case _:
            return ""
