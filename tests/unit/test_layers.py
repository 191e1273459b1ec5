"""Dependencies point inward only: what a module of `service` may import, by its place."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Place: the places that it may import, itself included. A longer name wins over its folder's.
MAY_IMPORT = {
    "service.__main__": {"service.config", "service.errors", "service.server"},
    "service.server": {
        "service.config",
        "service.engine",
        "service.errors",
        "service.metrics",
        "service.rpc",
        "service.run.interval",
        "service.store.database",
        "service.transport",
        "service.wiring",
    },
    "service.transport": {"service.transport"},
    "service.wiring": {
        "service.api",
        "service.config",
        "service.dialect",
        "service.engine.base",
        "service.files",
        "service.metrics",
        "service.run",
        "service.store",
    },
    "service.check_stream": {"service.wire"},
    "service.metrics": {"service.errors", "service.run.flush"},
    "service.config": {"service.engine.tensorrt_settings"},
    "service.engine.tensorrt_settings": set(),
    "service.errors": set(),
    "service.rpc": {
        "service.rpc",
        "service.api",
        "service.long_work",
        "service.run.drain",
        "service.run.opening",
        "service.transport",
        "service.wire",
        "service.engine.base",
        "service.errors",
    },
    "service.api": {
        "service.api",
        "service.files",
        "service.run",
        "service.store",
        "service.items",
        "service.long_work",
        "service.errors",
    },
    "service.files": {"service.files", "service.places", "service.lru_cache", "service.errors"},
    "service.json_pointer": set(),
    "service.lru_cache": set(),
    "service.long_work": set(),
    "service.places": {"service.errors"},
    "service.store": {"service.store", "service.items", "service.errors"},
    "service.items": {"service.errors"},
    "service.run": {
        "service.run",
        "service.long_work",
        "service.places",
        "service.lru_cache",
        "service.dialect.base",
        "service.dialect.callable_tools",
        "service.engine.base",
        "service.items",
        "service.json_pointer",
        "service.errors",
    },
    "service.wire": {"service.wire", "service.errors"},
    "service.dialect": {"service.dialect", "service.engine.base", "service.errors"},
    "service.engine": {
        "service.engine",
        "service.dialect.callable_tools",
        "service.dialect.harmony",
        "service.errors",
        "service.json_pointer",
    },
    "service.engine.base": {"service.errors"},
    "service.engine.factory": {"service.engine", "service.config", "service.errors"},
}
# The sans-IO parts know no event loop, transport, clock or randomness.
SANS_IO = (
    "service.api.paging",
    "service.dialect",
    "service.engine.grammar_size",
    "service.engine.special_texts",
    "service.items",
    "service.json_pointer",
    "service.run.answer_format",
    "service.run.builder",
    "service.run.calls",
    "service.run.custom_input",
    "service.run.json_schema",
    "service.run.open_item",
    "service.run.opening",
    "service.run.promises",
    "service.run.prompt",
    "service.run.schema_costs",
    "service.run.tool_validation",
    "service.run.truncation",
    "service.run.turn",
    "service.run.validation",
    "service.store.ending",
    "service.store.pages",
    "service.transport.faults",
    "service.transport.framing",
    "service.transport.headers",
    "service.wire",
)
IO_MODULES = {"asyncio", "grpc", "time", "datetime", "random", "uuid", "secrets", "threading", "socket"}
# Setting up the vocabulary reads and writes its file, once, at start.
GENERATED = "openresponses"


def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (ROOT / "service").rglob("*.py")
    }


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def within(name: str, places: set[str]) -> bool:
    return any(name == place or name.startswith(place + ".") for place in places)


@pytest.mark.parametrize("name", sorted(set(modules()) - {"service"}))
def test_imports_point_inward(name):
    place = max((p for p in MAY_IMPORT if within(name, {p})), key=len)
    known = set(modules())
    internal = {i for i in imports(modules()[name]) if i in known and i != "service"}
    # `from service.dialect.harmony import vocabulary` names the package too; its modules decide.
    packages = {i for i in internal if any(other.startswith(i + ".") for other in internal)}
    assert {i for i in internal - packages if not within(i, MAY_IMPORT[place])} == set()


@pytest.mark.parametrize("name", sorted(n for n in modules() if within(n, set(SANS_IO))))
def test_sans_io_parts_know_no_io(name):
    assert {i.partition(".")[0] for i in imports(modules()[name])} & IO_MODULES == set()
