"""Which CPUs a worker runs on. [pure]"""

from collections.abc import Sequence

from ddplaunch.record import Record
from ddplaunch.words import describe_runs

MODES = ("node", "socket", "exclusive", "core-complex")


class Cpu(Record):
    """One usable CPU and what it shares: memory, socket, physical core, last-level cache."""

    number: int
    node: int
    package: int
    core: int
    cache: str


class CannotBindError(Exception):
    """There are not enough cores for these workers."""


def bind_workers(mode: str, cpus: Sequence[Cpu], homes: Sequence[int | None]) -> tuple[tuple[int, ...], ...]:
    """The CPUs of each worker; `homes` has the NUMA node of each worker's card, None where it is unknown.

    node: all of the node. socket: all of its socket. exclusive: cores of the node that nobody else has.
    core-complex: the CPUs behind one last-level cache of the node.
    """
    nodes = sorted({cpu.node for cpu in cpus})
    placed = [
        home if home in nodes else nodes[number * len(nodes) // len(homes)]
        for number, home in enumerate(homes)
    ]
    return tuple(
        _choose(mode, cpus, node, placed[:number].count(node), placed.count(node))
        for number, node in enumerate(placed)
    )


def _choose(mode: str, cpus: Sequence[Cpu], node: int, place: int, sharers: int) -> tuple[int, ...]:
    """For the worker in this place among those that share the node."""
    own = [cpu for cpu in cpus if cpu.node == node]
    if mode == "socket":
        packages = {cpu.package for cpu in own}
        own = [cpu for cpu in cpus if cpu.package in packages]
    elif mode == "exclusive":
        cores = sorted({(cpu.package, cpu.core) for cpu in own})
        if len(cores) < sharers:
            noun = "core" if len(cores) == 1 else "cores"
            raise CannotBindError(f"NUMA node {node} has {len(cores)} {noun} for {sharers} workers")
        mine = set(cores[len(cores) * place // sharers : len(cores) * (place + 1) // sharers])
        own = [cpu for cpu in own if (cpu.package, cpu.core) in mine]
    elif mode == "core-complex":
        caches = [cpu.cache for cpu in own]
        complexes = sorted(set(caches), key=lambda cache: (-caches.count(cache), caches.index(cache)))
        own = [cpu for cpu in own if cpu.cache == complexes[place % len(complexes)]]
    return tuple(sorted(cpu.number for cpu in own))


def describe_cpus(cpus: Sequence[int]) -> str:
    """`0-3,8`, as the kernel writes it."""
    return describe_runs(cpus, ",")
