"""What the nodes of a run must agree on before it starts, and what they should. [pure]"""

from collections.abc import Callable

from ddplaunch.errors import EXIT_JOIN, Problem
from ddplaunch.nodes.messages import Hello, name_place
from ddplaunch.record import Record
from ddplaunch.words import describe_seconds


class Field(Record):
    """One thing to compare, as a user knows it. None is unknown, and not compared."""

    name: str
    value: Callable[[Hello], object]
    shown: Callable[[Hello], str]
    hint: str = ""


_MUST = (
    Field("purpose", lambda h: h.purpose, lambda h: "a check" if h.purpose == "check" else "a launch"),
    Field("--rdzv-id", lambda h: h.run_name, lambda h: h.run_name or "none",
          "this is another run's place to meet: give each run a port of its own"),
    Field("--nnodes", lambda h: (h.min_nnodes, h.nnodes), lambda h: _show_nodes(h),
          "the same --nnodes on every node"),
    Field("who gives out node ranks", lambda h: h.gives_ranks,
          lambda h: "the run (--rdzv-backend c10d)" if h.gives_ranks else "--node-rank",
          "the same --rdzv-backend on every node"),
    Field("--master-port", lambda h: h.master_port, lambda h: str(h.master_port),
          "the same --master-port on every node"),
    Field("--max-restarts", lambda h: h.max_restarts, lambda h: str(h.max_restarts),
          "the same --max-restarts on every node"),
    Field("the script", lambda h: h.script_digest or None, lambda h: _show_script(h),
          "copy the same file to every node"),
    Field("the script", lambda h: None if h.script_digest else h.script or None, lambda h: h.script,
          "the same on every node"),
    Field("torch", lambda h: h.torch or None, lambda h: h.torch, "the same version of torch on every node"),
)  # fmt: skip

_SHOULD = (
    Field("the script's arguments", lambda h: h.arguments_digest or None, lambda h: h.arguments_digest),
    Field("ddplaunch", lambda h: h.ddplaunch or None, lambda h: h.ddplaunch),
    Field("Python", lambda h: h.python or None, lambda h: h.python),
    Field("--stall-timeout", lambda h: h.stall_seconds, lambda h: _show_seconds(h.stall_seconds)),
)  # fmt: skip


def find_disagreements(first: Hello, node: int, other: Hello) -> tuple[Problem, ...]:
    """What keeps `other` out of a run that node 0 began as `first`."""
    return tuple(
        Problem(
            f"the nodes do not agree on {field.name}",
            _show_both(field, first, node, other),
            field.hint,
            EXIT_JOIN,
        )
        for field in _differing(_MUST, first, other)
    )


def find_doubts(first: Hello, node: int, other: Hello) -> tuple[str, ...]:
    """What differs, and may be meant."""
    return tuple(
        f"{field.name}: {_show_both(field, first, node, other)}"
        for field in _differing(_SHOULD, first, other)
    )


def _differing(fields: tuple[Field, ...], first: Hello, other: Hello) -> list[Field]:
    return [
        field
        for field in fields
        if None not in (field.value(first), field.value(other)) and field.value(first) != field.value(other)
    ]


def _show_both(field: Field, first: Hello, node: int, other: Hello) -> str:
    places = name_place(0, first.host), name_place(node, other.host)
    return f"{field.shown(first)} on {places[0]}, {field.shown(other)} on {places[1]}"


def _show_nodes(hello: Hello) -> str:
    return f"{hello.min_nnodes}:{hello.nnodes}" if hello.min_nnodes else str(hello.nnodes)


def _show_script(hello: Hello) -> str:
    return f"{hello.script} ({hello.script_digest})"


def _show_seconds(seconds: float) -> str:
    return describe_seconds(seconds) if seconds else "none"
