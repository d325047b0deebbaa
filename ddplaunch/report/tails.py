"""Choosing the last lines of a worker that are worth showing. [pure]"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

LAST_LINES = 20
MOST_LINES = 60
LONGEST_MESSAGE = 4  # lines of an exception, if something else may follow

_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
    "terminated with the following error:",  # a child of torch.multiprocessing.spawn
)
_IGNORED = "Exception ignored in"  # while Python ends, after the exception that ends it


def choose_lines(tail: Sequence[str]) -> tuple[str, ...]:
    """The last lines, back to the beginning of the traceback they belong to."""
    lines = _strip_blank(_without_afterthoughts(tail))
    start = max(0, len(lines) - LAST_LINES)
    first = _traceback_start(lines)
    if first is not None:
        start = first if len(lines) - first > 3 else min(start, first)
    chosen = lines[start:]
    if len(chosen) <= MOST_LINES:
        return tuple(chosen)
    head, end = chosen[:10], chosen[-(MOST_LINES - 10) :]
    left_out = len(chosen) - len(head) - len(end)
    return (*head, f"... {left_out} lines left out ...", *end)


def has_traceback(tail: Sequence[str]) -> bool:
    return any(_TRACEBACK in line for line in tail)


def ends_in_traceback(tail: Sequence[str]) -> bool:
    """Whether nothing of note comes after the last one."""
    last = max((index for index, line in enumerate(tail) if _TRACEBACK in line), default=None)
    return last is not None and sum(not line.startswith(" ") for line in tail[last + 1 :]) <= LONGEST_MESSAGE


def _without_afterthoughts(tail: Sequence[str]) -> Sequence[str]:
    """Up to where the end of Python itself went wrong, if an exception had led there."""
    ignored = next((index for index, line in enumerate(tail) if line.startswith(_IGNORED)), len(tail))
    return tail[:ignored] if has_traceback(tail[:ignored]) else tail


def is_same_traceback(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two workers died of the same exception at the same place, whatever numbers it names."""
    chosen = choose_lines(one)
    if not has_traceback(chosen):
        return False
    return _without_numbers(chosen) == _without_numbers(choose_lines(other))


def _without_numbers(lines: Sequence[str]) -> str:
    return re.sub(r"0x[0-9a-fA-F]+|\d+", "#", "\n".join(lines))


def read_recorded(error_file: Mapping[str, Any] | None) -> list[str]:
    """The traceback in an error file of torch's @record; `message` is a mapping or just text there."""
    message = (error_file or {}).get("message")
    if isinstance(message, Mapping):
        extra = message.get("extraInfo")
        callstack = extra.get("py_callstack") if isinstance(extra, Mapping) else None
        message = callstack or message.get("message")
    return str(message).splitlines() if message else []


def _traceback_start(lines: Sequence[str]) -> int | None:
    """Where the last traceback begins; a chain of exceptions is one traceback."""
    starts = [index for index, line in enumerate(lines) if _TRACEBACK in line]
    if not starts:
        return None
    first = starts[-1]
    for earlier in reversed(starts[:-1]):
        between = lines[earlier:first]
        if not (_is_quoted(lines[first]) or any(mark in line for line in between for mark in _CHAINED)):
            break
        first = earlier
    return first


def _is_quoted(line: str) -> bool:
    """Whether a traceback stands within another one: of a DataLoader's process, of an exception group."""
    before = line.partition("Traceback")[0]
    return before.endswith("Original ") or "|" in before


def _strip_blank(tail: Sequence[str]) -> list[str]:
    lines = list(tail)
    while lines and not lines[-1].strip():
        lines.pop()
    return lines
