"""How this machine's CPUs hang together, from /sys."""

import os

from ddplaunch.plan.cores import Cpu
from ddplaunch.preflight.files import read_text


def probe_cpus(root: str = "/sys/devices/system", usable: frozenset[int] | None = None) -> tuple[Cpu, ...]:
    """The usable CPUs; where the kernel tells nothing (macOS, a bare container) there are none."""
    if usable is None:
        usable = frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()
    nodes = _probe_nodes(root)
    return tuple(
        Cpu(
            number=number,
            node=nodes.get(number, 0),
            package=_read_number(f"{root}/cpu/cpu{number}/topology/physical_package_id", 0),
            core=_read_number(f"{root}/cpu/cpu{number}/topology/core_id", number),
            cache=_probe_cache(f"{root}/cpu/cpu{number}/cache"),
        )
        for number in sorted(usable)
        if os.path.isdir(f"{root}/cpu/cpu{number}")
    )


def parse_cpu_list(text: str) -> list[int]:
    """`0-3,8` as the kernel writes it."""
    found: list[int] = []
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        if first.isdigit():
            found += range(int(first), int(last if dash else first) + 1)
    return found


def _probe_nodes(root: str) -> dict[int, int]:
    try:
        names = [name for name in os.listdir(f"{root}/node") if name.startswith("node")]
    except OSError:
        return {}
    return {
        cpu: int(name[4:])
        for name in names
        if name[4:].isdigit()
        for cpu in parse_cpu_list(read_text(f"{root}/node/{name}/cpulist"))
    }


def _probe_cache(directory: str) -> str:
    """Who shares the last-level cache, which names it."""
    try:
        levels = sorted(name for name in os.listdir(directory) if name.startswith("index"))
    except OSError:
        return ""
    return read_text(f"{directory}/{levels[-1]}/shared_cpu_list").strip() if levels else ""


def _read_number(path: str, otherwise: int) -> int:
    text = read_text(path).strip()
    return int(text) if text.isdigit() else otherwise
