"""Who belongs to a run, by values alone."""

from hypothesis import given
from hypothesis import strategies as st

from ddplaunch.supervise.census import ProcessFacts, describe_processes, find_ours, sum_work
from ddplaunch.supervise.events import Work

LAUNCHER, GUARDIAN = 10, 11


def process(pid: int, parent: int, *, marked: bool = False, cpu: float = 0.0) -> ProcessFacts:
    return ProcessFacts(pid, parent, pid * 100, Work(cpu, 10), f"command {pid}", marked)


MACHINE = [
    process(1, 0),
    process(LAUNCHER, 1),
    process(GUARDIAN, LAUNCHER),
    process(20, LAUNCHER, marked=True, cpu=1.0),  # a worker
    process(21, 20, marked=True, cpu=2.0),  # its child
    process(22, 21, cpu=4.0),  # a grandchild that wiped its environment
    process(30, 1, marked=True),  # a daemon
    process(40, LAUNCHER),  # an orphan without environment, adopted
    process(50, 1),  # a stranger
    process(51, 50),
]


def pids(found: list[ProcessFacts]) -> list[int]:
    return [process.pid for process in found]


def test_marked_adopted_and_descended_are_ours() -> None:
    assert pids(find_ours(MACHINE, LAUNCHER, {GUARDIAN})) == [20, 21, 22, 30, 40]


def test_without_the_launcher_only_the_mark_and_descent_count() -> None:
    assert pids(find_ours(MACHINE, None, {GUARDIAN})) == [20, 21, 22, 30]


def test_a_launcher_inside_another_run_is_not_its_own_prey() -> None:
    inner = [process(LAUNCHER, 5, marked=True), process(GUARDIAN, LAUNCHER, marked=True)]
    assert find_ours(inner, LAUNCHER, {LAUNCHER, GUARDIAN}) == []


def test_work_counts_what_a_worker_started() -> None:
    assert sum_work(MACHINE, [20, 99]) == {20: Work(7.0, 30), 99: Work(0.0, 0)}


_machines = st.lists(
    st.tuples(st.integers(2, 30), st.integers(1, 30), st.booleans()), unique_by=lambda p: p[0]
)


@given(_machines, st.integers(2, 30))
def test_nobody_is_ours_without_a_reason(rows: list[tuple[int, int, bool]], launcher: int) -> None:
    """Whoever is found is marked, a child of the launcher, or a child of somebody found."""
    machine = [process(pid, parent, marked=marked) for pid, parent, marked in rows]
    found = set(pids(find_ours(machine, launcher, {launcher})))
    for one in machine:
        if one.pid in found:
            assert one.is_marked or one.parent == launcher or one.parent in found
    assert launcher not in found


def test_names_are_short() -> None:
    many = [process(pid, 1) for pid in range(100, 112)]
    assert describe_processes(many[:2]) == "pid 100 (command 100), pid 101 (command 101)"
    assert describe_processes(many).endswith("pid 107 (command 107) and 4 more")
    long = process(7, 1)._replace(command="/usr/bin/python -u /home/me/a\nb.py " + "x" * 100)
    assert describe_processes([long]) == f"pid 7 (python -u a b.py {'x' * 40}...)"
