"""Which CPUs a worker gets, on machines of every shape."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddplaunch.plan.cores import MODES, CannotBindError, Cpu, bind_workers, describe_cpus
from ddplaunch.preflight.topology import parse_cpu_list, probe_cpus

# Two sockets, each one NUMA node of 8 cores with two threads; a cache for every 4 cores.
TWO_SOCKETS = [
    Cpu(number=thread * 16 + core, node=core // 8, package=core // 8, core=core % 8, cache=str(core // 4))
    for thread in range(2)
    for core in range(16)
]


def test_a_worker_stays_near_its_card() -> None:
    bound = bind_workers("node", TWO_SOCKETS, [1, 0])
    assert [describe_cpus(cpus) for cpus in bound] == ["8-15,24-31", "0-7,16-23"]
    assert bind_workers("socket", TWO_SOCKETS, [1, 0]) == bound


def test_exclusive_cores_are_whole_disjoint_and_on_one_node() -> None:
    bound = bind_workers("exclusive", TWO_SOCKETS, [0, 0, 1, 1])
    assert [describe_cpus(cpus) for cpus in bound] == ["0-3,16-19", "4-7,20-23", "8-11,24-27", "12-15,28-31"]


def test_without_cards_workers_spread_over_the_nodes() -> None:
    assert [cpus[0] for cpus in bind_workers("exclusive", TWO_SOCKETS, [None] * 4)] == [0, 4, 8, 12]


def test_core_complexes() -> None:
    bound = bind_workers("core-complex", TWO_SOCKETS, [0, 0, 0])
    assert [describe_cpus(cpus) for cpus in bound] == ["0-3,16-19", "4-7,20-23", "0-3,16-19"]


def test_too_few_cores() -> None:
    with pytest.raises(CannotBindError, match="NUMA node 0 has 8 cores for 9 workers"):
        bind_workers("exclusive", TWO_SOCKETS, [0] * 9)


@given(st.sampled_from(MODES), st.lists(st.sampled_from([0, 1, 7, None]), min_size=1, max_size=8))
def test_everybody_has_cpus_of_one_node_or_socket(mode: str, homes: list[int | None]) -> None:
    bound = bind_workers(mode, TWO_SOCKETS, homes)
    nodes = {cpu.number: cpu.node for cpu in TWO_SOCKETS}
    assert len(bound) == len(homes)
    for cpus in bound:
        assert len({nodes[cpu] for cpu in cpus}) == 1
    if mode == "exclusive":
        assert len({cpu for cpus in bound for cpu in cpus}) == sum(map(len, bound))


def test_a_machine_is_read_from_sys(tmp_path: Path) -> None:
    """Two nodes of two cores; one CPU is not ours to use."""
    for number in range(4):
        cpu = tmp_path / "cpu" / f"cpu{number}"
        (cpu / "topology").mkdir(parents=True)
        (cpu / "topology" / "physical_package_id").write_text(f"{number // 2}\n")
        (cpu / "topology" / "core_id").write_text(f"{number % 2}\n")
        for level in ("index0", "index3"):
            (cpu / "cache" / level).mkdir(parents=True)
        (cpu / "cache" / "index0" / "shared_cpu_list").write_text(f"{number}\n")
        (cpu / "cache" / "index3" / "shared_cpu_list").write_text("0-1\n" if number < 2 else "2-3\n")
    for node, cpus in enumerate(("0-1\n", "2-3\n")):
        (tmp_path / "node" / f"node{node}").mkdir(parents=True)
        (tmp_path / "node" / f"node{node}" / "cpulist").write_text(cpus)
    assert probe_cpus(str(tmp_path), frozenset({0, 1, 3})) == (
        Cpu(0, 0, 0, 0, "0-1"),
        Cpu(1, 0, 0, 1, "0-1"),
        Cpu(3, 1, 1, 1, "2-3"),
    )
    assert probe_cpus("/nonexistent", frozenset({0})) == ()


def test_this_machine_is_read() -> None:
    assert {cpu.number for cpu in probe_cpus()}


@given(st.sets(st.integers(0, 99)))
def test_lists_are_written_as_the_kernel_reads_them(cpus: set[int]) -> None:
    assert parse_cpu_list(describe_cpus(list(cpus))) == sorted(cpus)
