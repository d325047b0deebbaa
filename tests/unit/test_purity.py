"""Files that say [pure] decide; they import nothing that touches the world."""

import ast
from pathlib import Path

import pytest

import ddplaunch

ROOT = Path(ddplaunch.__file__).parent
EFFECTS = {
    "os", "subprocess", "socket", "time", "selectors", "threading",
    "torch", "rich", "click", "zmq", "psutil",
}  # fmt: skip


def _modules() -> dict[str, Path]:
    found = {}
    for path in ROOT.rglob("*.py"):
        name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def _imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def _is_pure(path: Path) -> bool:
    return "[pure]" in (ast.get_docstring(ast.parse(path.read_text())) or "")


PURE = {name: path for name, path in _modules().items() if _is_pure(path)}


def test_deciding_rooms_are_pure() -> None:
    must = [
        "config.resolve",
        "plan.build",
        "preflight.checks",
        "supervise.state",
        "output.lines",
        "report.text",
        "nodes.membership",
        "nodes.contact",
        "nodes.wire",
    ]
    assert {f"ddplaunch.{name}" for name in must} <= set(PURE)


@pytest.mark.parametrize("name", sorted(PURE))
def test_pure_files_import_no_effects(name: str) -> None:
    imported = _imports(PURE[name])
    assert not {module.split(".")[0] for module in imported} & EFFECTS
    ours = {module for module in imported if module in _modules() and module.count(".") > 1}
    assert ours <= set(PURE), "a pure file leans on one with effects"
