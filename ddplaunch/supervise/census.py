"""Which processes belong to a run, and what they have done. [pure]"""

from collections.abc import Collection, Sequence

from ddplaunch.record import Record
from ddplaunch.supervise.events import Work
from ddplaunch.words import shorten_command

MOST_NAMED = 8


class ProcessFacts(Record):
    """One live process; pid and start time together are never given out twice."""

    pid: int
    parent: int
    started: int  # clock ticks since boot
    work: Work
    command: str
    is_marked: bool  # carries the run id in its environment


def find_ours(
    processes: Sequence[ProcessFacts],
    launcher: int | None,
    known: Collection[int],
    starter: int | None = None,
) -> list[ProcessFacts]:
    """The processes of a run; nobody else is ever signalled.

    They carry the run id, or are children of the launcher: orphans of workers come to it as their
    subreaper, whatever they did to their environment. `launcher` None means that it is gone, or that it
    had children before the run, so that orphans could be theirs. `known` are never ours, nor is what the
    `starter` of the workers has started for itself.
    """
    ours = {
        process.pid
        for process in processes
        if process.pid not in known
        and (process.is_marked or (launcher is not None and process.parent == launcher))
    }
    spared = set() if starter is None else _with_descendants(processes, {starter})
    ours = _with_descendants(processes, ours - spared) - {*known, *spared, launcher}
    return [process for process in processes if process.pid in ours]


def sum_work(processes: Sequence[ProcessFacts], roots: Collection[int]) -> dict[int, Work]:
    """By root (a worker's pid, an orphan's), what it and everything it started have done."""
    done = {process.pid: process.work for process in processes}
    return {
        root: Work(
            sum(done[member].cpu_seconds for member in family if member in done),
            sum(done[member].moved_bytes for member in family if member in done),
        )
        for root in roots
        for family in (_with_descendants(processes, {root}),)
    }


def describe_processes(processes: Sequence[ProcessFacts]) -> str:
    """`pid 4711 (sleep 600), pid 4712 (wandb)`, and how many more."""
    shown = [f"pid {process.pid} ({shorten_command(process.command)})" for process in processes[:MOST_NAMED]]
    more = len(processes) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _with_descendants(processes: Sequence[ProcessFacts], found: set[int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process.pid)
    family, waiting = set(found), list(found)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in family:
                family.add(child)
                waiting.append(child)
    return family
