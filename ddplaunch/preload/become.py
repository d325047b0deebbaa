"""Turning a fork of the preloader into a worker, as if it had been started by itself."""

import os
import sys
from collections.abc import Mapping, Sequence

from ddplaunch.preload.title import set_title
from ddplaunch.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from typing import Any


class Changes(Record):
    """What the modules have done to the environment when they were imported."""

    made: Mapping[str, str]
    taken_away: frozenset[str]


def find_changes(before: Mapping[str, str]) -> Changes:
    made = {name: value for name, value in os.environ.items() if before.get(name) != value}
    return Changes(made, frozenset(before.keys() - os.environ.keys()))


def become(
    order: "dict[str, Any]", argv: Sequence[str], descriptors: Sequence[int], changes: Changes
) -> None:
    if order["group"] is None:
        os.setsid()
    else:  # a terminal's foreground
        os.setpgid(0, order["group"])
    _take_descriptors(descriptors)
    _take_environment(order["env"], changes)
    if order["cpus"] is not None:
        os.sched_setaffinity(0, order["cpus"])
    _diverge()
    script = argv[3] if argv[2] == "-m" else argv[2]
    rank = order["env"]["RANK"]
    set_title(f"[rank {rank}] {' '.join(argv)}", f"rank {rank} {os.path.basename(script)}")


def _take_descriptors(descriptors: Sequence[int]) -> None:
    """stdin, stdout and stderr; a fourth one is the lifeline's, to be held as long as the worker lives."""
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for strand in descriptors[3:]:
        os.set_inheritable(strand, True)


def _take_environment(told: Mapping[str, str], changes: Changes) -> None:
    """The worker's own, as bytes; what the modules did comes after, as if they were imported now."""
    env = {name.encode("latin-1"): value.encode("latin-1") for name, value in told.items()}
    for name in os.environb.keys() - env.keys():
        del os.environb[name]
    os.environb.update(env)
    os.environ.update(changes.made)
    for gone in changes.taken_away & os.environ.keys():
        del os.environ[gone]


def _diverge() -> None:
    """What would have come out differently in every process. Python's own random sees to itself."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.seed()
