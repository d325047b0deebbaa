"""Slurm: inside a step (srun), and in a job without one (sbatch, salloc). [pure]"""

from collections.abc import Mapping, Sequence

from ddplaunch.cluster.hostlist import expand_hostlist
from ddplaunch.cluster.model import (
    PLACE,
    TOPOLOGY,
    Allocation,
    Found,
    Surroundings,
    UnclearError,
    answers_place,
    check_rank,
    derive_port,
    quote,
    read_number,
    read_text,
)
from ddplaunch.config.parse import MOST_NODES

SLURM = "Slurm"
GRACE_SECONDS = 20.0  # Slurm kills after KillWait, 30 s by default

# The shell of sbatch or salloc may be a step of its own: of one node, whatever the job has.
_SHELL_STEPS = frozenset({"4294967290", "4294967291", "interactive", "batch"})


def detect_step(where: Surroundings) -> Allocation | None:
    environ = where.environ
    if not is_step(environ):
        return None
    nnodes = read_number(environ, "SLURM_STEP_NUM_NODES", 1)
    _refuse_many_tasks(where, nnodes)
    allocation = Allocation(SLURM)
    if nnodes == 1:
        return allocation
    node_rank = read_number(environ, "SLURM_NODEID")
    check_rank(node_rank, nnodes, quote(environ, "SLURM_NODEID", "SLURM_STEP_NUM_NODES"))
    hosts = read_hosts(environ, "SLURM_STEP_NODELIST")
    own = environ.get("SLURMD_NODENAME", hosts[node_rank] if node_rank < len(hosts) else "")
    if len(hosts) != nnodes or hosts[node_rank] != own:
        names = ("SLURM_STEP_NODELIST", "SLURM_STEP_NUM_NODES", "SLURM_NODEID", "SLURMD_NODENAME")
        raise UnclearError("Slurm's variables contradict each other", quote(environ, *names))
    port = derive_port(
        environ["SLURM_JOB_ID"], environ["SLURM_STEP_ID"], environ.get("SLURM_RESTART_COUNT", "0")
    )
    return allocation._replace(
        values={
            "nnodes": Found(nnodes, "SLURM_STEP_NUM_NODES"),
            "node_rank": Found(node_rank, "SLURM_NODEID"),
            "master_addr": Found(hosts[0], "SLURM_STEP_NODELIST"),
            "master_port": Found(port, "SLURM_JOB_ID, SLURM_STEP_ID"),
        },
    )


def detect_job(where: Surroundings) -> Allocation | None:
    """A batch script's own shell runs on the first node only."""
    environ = where.environ
    if is_step(environ) or not ("SLURM_JOB_ID" in environ or "SLURM_STEP_ID" in environ):
        return None
    name = "SLURM_JOB_NUM_NODES" if "SLURM_JOB_NUM_NODES" in environ else "SLURM_NNODES"
    read_text(environ, "SLURM_JOB_ID")
    nnodes = read_number(environ, name, 1)
    hosts, _ = find_hosts(where) or ([], "")
    # A batch script has SLURMD_NODENAME; the shell of salloc may be on a login node.
    is_elsewhere = bool(hosts) and "SLURMD_NODENAME" not in environ and not _is_among(where.host, hosts)
    if nnodes == 1 and not is_elsewhere:
        return Allocation(SLURM)
    shell = quote(environ, "SLURM_STEP_ID")
    raise UnclearError(
        f"this Slurm job has {'a node' if nnodes == 1 else f'{nnodes} nodes'}, and ddplaunch was started on "
        f"{where.host if is_elsewhere else 'one of them'}, without srun",
        f"{quote(environ, name, 'SLURM_JOB_NODELIST')}, and "
        + (f"{shell} is the shell's own" if shell else "SLURM_STEP_ID is not set"),
        f"srun --ntasks={nnodes} --ntasks-per-node=1 {_keep_cores(environ)}{where.without(TOPOLOGY)}",
        lambda given: answers_place(given) and (given["nnodes"], given["node_rank"]) != (nnodes, 0),
    )


def find_hosts(where: Surroundings) -> tuple[list[str], str] | None:
    """The hosts of the whole job, for mpirun inside it."""
    if "SLURM_JOB_NODELIST" not in where.environ:
        return None
    return read_hosts(where.environ, "SLURM_JOB_NODELIST"), "SLURM_JOB_NODELIST"


def is_step(environ: Mapping[str, str]) -> bool:
    return "SLURM_JOB_ID" in environ and environ.get("SLURM_STEP_ID", "batch") not in _SHELL_STEPS


def add_job(allocation: Allocation, environ: Mapping[str, str]) -> Allocation:
    """What holds everywhere in a job, whoever started this launcher in it."""
    job = environ["SLURM_JOB_ID"]
    if "SLURM_ARRAY_JOB_ID" in environ and "SLURM_ARRAY_TASK_ID" in environ:
        job = f"{environ['SLURM_ARRAY_JOB_ID']}_{environ['SLURM_ARRAY_TASK_ID']}"  # as squeue shows it
    gpus = None
    if "SLURM_GPUS_ON_NODE" in environ:
        gpus = Found(read_number(environ, "SLURM_GPUS_ON_NODE"), "SLURM_GPUS_ON_NODE")
    return allocation._replace(
        values={"grace": Found(GRACE_SECONDS, "KillWait"), **allocation.values},
        job=f"{job}.{environ['SLURM_STEP_ID']}" if is_step(environ) else job,
        gpus=gpus,
        grants_gpus=True,
        first_attempt=(
            read_number(environ, "SLURM_RESTART_COUNT") if "SLURM_RESTART_COUNT" in environ else 0
        ),
    )


def _refuse_many_tasks(where: Surroundings, nnodes: int) -> None:
    """`1` and `1(x2)` are one task per node; `2(x2),1` are five on three nodes."""
    environ, name = where.environ, "SLURM_STEP_TASKS_PER_NODE"
    tasks: list[int] = []
    for part in read_text(environ, name).split(","):
        count, _, times = part.rstrip(")").partition("(x")
        if not count.isdecimal() or not (times or "1").isdecimal():
            raise UnclearError(f"{name}={environ[name]!r} makes no sense", "expected 1 or 1(xN)")
        tasks += [int(count)] * min(int(times or "1"), MOST_NODES)
    if set(tasks) == {1}:
        return
    counts = ",".join(map(str, tasks if len(set(tasks)) > 1 else tasks[:1]))
    nproc = where.line.options.get("nproc_per_node") or counts
    raise UnclearError(
        "Slurm started several ddplaunch on a node; one starts all its workers",
        quote(environ, name),
        f"srun --nodes={nnodes} --ntasks={nnodes} --ntasks-per-node=1 {_keep_cores(environ)}"
        f"{where.without(PLACE, nproc_per_node=nproc)}",
        lambda given: answers_place(given) and given["nnodes"] == sum(tasks),
    )


def _keep_cores(environ: Mapping[str, str]) -> str:
    """srun does not take it over from sbatch."""
    cores = environ.get("SLURM_CPUS_PER_TASK", "")
    return f"--cpus-per-task={cores} " if cores.isdecimal() else ""


def _is_among(host: str, hosts: Sequence[str]) -> bool:
    return host.partition(".")[0] in {name.partition(".")[0] for name in hosts}


def read_hosts(environ: Mapping[str, str], name: str) -> list[str]:
    try:
        return expand_hostlist(read_text(environ, name))
    except ValueError as error:
        raise UnclearError(f"{name}: {error}") from None
