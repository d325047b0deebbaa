"""Readings as text: for the terminal, and for the README."""

import os
import platform
import statistics
from collections.abc import Sequence

from scripts.bench.measures import Measure, Promise
from scripts.bench.peers import BASH, DDPLAUNCH, PRELOAD, TORCHRUN

Readings = dict[str, list[float]]


def best(measure: Measure, readings: Sequence[float]) -> float:
    return max(readings) if measure.more_is_better else min(readings)


def render_measure(measure: Measure, readings: Readings) -> str:
    """One line per launcher: best, median, and the ratio of bests to the first of those we compare with."""
    base = next((name for name in (BASH, TORCHRUN) if name in readings), None)
    lines = [f"{measure.name} ({measure.unit}{', more is better' if measure.more_is_better else ''})"]
    for name, values in readings.items():
        number = best(measure, values)
        ratio = ""
        if base is not None and best(measure, readings[base]):
            ratio = f"{number / best(measure, readings[base]):8.2f}x of {base}"
        middle = statistics.median(values)
        lines.append(
            f"  {name:<26}{number:10.{measure.digits}f}  median {middle:10.{measure.digits}f}{ratio}"
        )
    return "\n".join(lines)


def judge_promise(measure: Measure, promise: Promise, readings: Readings, margin: float) -> tuple[str, bool]:
    """In words, and whether it is kept but for the margin; what could not be measured is not missed."""
    if promise.peer not in readings or (promise.base and promise.base not in readings):
        return f"not measured here: {promise.peer} against {promise.base or 'its limit'}", True
    number = best(measure, readings[promise.peer])
    of = measure.unit
    if promise.base:
        number /= best(measure, readings[promise.base]) or 1e-9
        of = f"x of {promise.base}"
    if measure.more_is_better:
        is_met, is_kept = number >= promise.limit, number >= promise.limit / margin
    else:
        is_met, is_kept = number <= promise.limit, number <= promise.limit * margin
    word = "at least" if measure.more_is_better else "at most"
    verdict = "kept" if is_met else "missed, within the margin" if is_kept else "missed"
    return f"promised: {promise.peer} {word} {promise.limit:g} {of}; {number:.2f}: {verdict}", is_kept


def render_markdown(results: Sequence[tuple[Measure, Readings]], date: str) -> str:
    """A row per measure, a column per launcher; medians in brackets."""
    names = list(dict.fromkeys(name for _, readings in results for name in readings))
    rows = [
        f"Measured on {date}: {_describe_machine()}. The best of several turns, the median in brackets.",
        "",
        "| | " + " | ".join(_head(name) for name in names) + " |",
        "| --- |" + " ---: |" * len(names),
    ]
    for measure, readings in results:
        cells = [_cell(measure, readings.get(name, [])) for name in names]
        rows.append(f"| {measure.name}, {measure.unit} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def _head(name: str) -> str:
    return f"**{name}**" if name in (DDPLAUNCH, PRELOAD) else name


def _cell(measure: Measure, readings: Sequence[float]) -> str:
    if not readings:
        return ""
    digits = measure.digits
    if len(readings) == 1:
        return f"{readings[0]:.{digits}f}"
    return f"{best(measure, readings):.{digits}f} ({statistics.median(readings):.{digits}f})"


def _describe_machine() -> str:
    import torch

    system = f"{platform.system()} {platform.release().partition('-')[0]}"
    python = platform.python_version()
    return f"{os.cpu_count()} cores, {system}, Python {python}, torch {torch.__version__}"
