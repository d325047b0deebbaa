"""The plan: everything that will be started, as plain values that can be printed and compared. [pure]"""

from collections.abc import Mapping

from ddplaunch.errors import Problem
from ddplaunch.plan.devices import Vendor, Visible
from ddplaunch.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from ddplaunch.plan.cores import Cpu


class Machine(Record):
    """What the probes saw of this machine before planning."""

    host: str
    python: str  # the interpreter ddplaunch runs on
    other_environment: str | None  # the active virtual environment, when it is another one
    cpus: int  # usable ones: affinity and cgroup quota
    all_cpus: int  # those of the machine
    vendor: Vendor  # its accelerators
    cpu_map: "tuple[Cpu, ...]"  # only looked at for --numa-binding
    temporary_directory: str


class WorkerSpec(Record):
    """Everything needed to start one worker, nothing known only afterwards."""

    rank: int
    local_rank: int
    node_rank: int
    argv: tuple[str, ...]
    env: Mapping[str, str]  # what the launcher adds or changes
    devices: tuple[str, ...]
    cpus: tuple[int, ...] | None
    output: str  # "inherit", "prefix", "plain" (through us, without prefix) or "hidden"
    interactive: bool  # keeps the launcher's stdin
    shown: frozenset[str] = frozenset({"stdout", "stderr"})  # streams on the console, where it is not hidden
    kept: frozenset[str] = frozenset()  # streams that have files of their own


class LaunchPlan(Record):
    """One run, seen from this node."""

    run_id: str  # the same on all nodes
    launch_id: str  # of this launcher alone
    host: str
    nnodes: int
    node_rank: int
    gives_ranks: bool  # the run gives node ranks out: this one is not final
    nprocs: tuple[int, ...]  # workers of each node, by node rank
    roles: tuple[str, ...]  # of them, by node rank; empty: all have the same
    master_addr: str | None
    master_port: int  # 0: picked when the run starts
    control_port: int | None
    log_directory: str | None  # of this run
    splits_logs: bool  # a file per stream there, as chosen; otherwise one per rank
    visible: Visible
    workers: tuple[WorkerSpec, ...]  # this node's, by local rank
    sources: Mapping[str, str]
    problems: tuple[Problem, ...]  # what cannot be planned as asked
    notices: tuple[str, ...]

    @property
    def world_size(self) -> int:
        return sum(self.nprocs)


def name_node_logs(directory: str, node_rank: int) -> str:
    """Where the files of one node lie that are named by local rank."""
    return f"{directory}_node_{node_rank}"


def find_node_logs(own_directory: str, node_rank: int) -> str:
    """The same of another node, seen from this one's."""
    return name_node_logs(own_directory.rpartition("_node_")[0], node_rank)
