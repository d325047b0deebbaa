"""PBS and Torque, LSF, SGE: one launcher per host, started by the job's own script. [pure]"""

from collections.abc import Callable

from ddplaunch.cluster.model import (
    TOPOLOGY,
    Allocation,
    Found,
    Surroundings,
    UnclearError,
    check_rank,
    derive_port,
    find_own_index,
    quote,
    read_number,
    read_text,
)
from ddplaunch.record import Record


class Scheduler(Record):
    """A scheduler that names its hosts somewhere; the first is the master."""

    name: str
    job_variable: str
    hosts_variable: str
    hosts: Callable[[Surroundings], list[str]]  # in the order it gives, each once


def _read_pbs(where: Surroundings) -> list[str]:
    """A line per slot."""
    return list(dict.fromkeys(_read_file(where, "PBS_NODEFILE").split()))


def _read_sge(where: Surroundings) -> list[str]:
    """`host slots queue processors`."""
    lines = _read_file(where, "PE_HOSTFILE").splitlines()
    return list(dict.fromkeys(line.split()[0] for line in lines if line.strip()))


def _read_lsf(where: Surroundings) -> list[str]:
    """`host slots host slots`."""
    words = read_text(where.environ, "LSB_MCPU_HOSTS").split()
    if len(words) % 2 or not all(word.isdigit() for word in words[1::2]):
        said = quote(where.environ, "LSB_MCPU_HOSTS")
        raise UnclearError(f"{said} makes no sense", "expected pairs of host and slots")
    return list(dict.fromkeys(words[::2]))


def _read_file(where: Surroundings, name: str) -> str:
    path = read_text(where.environ, name)
    if not where.files.get(name, "").strip():
        raise UnclearError(f"{name}={path} cannot be read, or is empty", "it should name the job's hosts")
    return where.files[name]


PBS = Scheduler("PBS", "PBS_JOBID", "PBS_NODEFILE", _read_pbs)
LSF = Scheduler("LSF", "LSB_JOBID", "LSB_MCPU_HOSTS", _read_lsf)
SGE = Scheduler("SGE", "JOB_ID", "PE_HOSTFILE", _read_sge)
SCHEDULERS = (PBS, LSF, SGE)


def detect_pbs(where: Surroundings) -> Allocation | None:
    return _detect(PBS, where)


def detect_lsf(where: Surroundings) -> Allocation | None:
    found = _detect(LSF, where)
    if found is None or "JSM_NAMESPACE_RANK" not in where.environ:
        return found
    return _detect_jsrun(where, found)


def detect_sge(where: Surroundings) -> Allocation | None:
    return _detect(SGE, where)


def find_hosts(where: Surroundings) -> tuple[list[str], str] | None:
    """The hosts of the job that we are in, for mpirun inside it."""
    for scheduler in SCHEDULERS:
        if scheduler.hosts_variable in where.environ:
            return scheduler.hosts(where), scheduler.hosts_variable
    return None


def _detect(scheduler: Scheduler, where: Surroundings) -> Allocation | None:
    environ, source = where.environ, scheduler.hosts_variable
    is_own = scheduler.job_variable != SGE.job_variable  # JOB_ID may be anybody's
    if source not in environ and not (is_own and scheduler.job_variable in environ):
        return None
    job = read_text(environ, scheduler.job_variable)
    read_text(environ, source)
    allocation = Allocation(scheduler.name, job=job)
    hosts = scheduler.hosts(where)
    if len(hosts) == 1 or "JSM_NAMESPACE_RANK" in environ:
        return allocation
    node_rank = find_own_index(hosts, where.host, f"{source}={environ[source]}")
    values = {
        "nnodes": Found(len(hosts), source),
        "node_rank": Found(node_rank, f"{source}, host {where.host}"),
        "master_addr": Found(hosts[0], source),
        "master_port": Found(derive_port(job), scheduler.job_variable),
    }
    return allocation._replace(values=values)


def _detect_jsrun(where: Surroundings, job: Allocation) -> Allocation:
    """jsrun counts its resource sets; the launch node, which comes first in the list, has none."""
    environ = where.environ
    nnodes = read_number(environ, "JSM_NAMESPACE_SIZE", 1)
    local = read_number(environ, "JSM_NAMESPACE_LOCAL_RANK")
    if local:
        raise UnclearError(
            "several ddplaunch were started on this node; one starts all its workers",
            quote(environ, "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_RANK"),
            f"jsrun --rs_per_host=1 --tasks_per_rs=1 {where.without(TOPOLOGY)}",
        )
    if nnodes == 1:
        return job
    node_rank = read_number(environ, "JSM_NAMESPACE_RANK")
    check_rank(node_rank, nnodes, quote(environ, "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"))
    values = {
        "nnodes": Found(nnodes, "JSM_NAMESPACE_SIZE"),
        "node_rank": Found(node_rank, "JSM_NAMESPACE_RANK"),
        "master_port": Found(derive_port(environ["LSB_JOBID"]), "LSB_JOBID"),
    }
    hosts = _read_lsf(where)
    if len(hosts) - nnodes in (0, 1):  # else it runs on some of them, and does not say which
        values["master_addr"] = Found(hosts[len(hosts) - nnodes], "LSB_MCPU_HOSTS")
    return job._replace(values=values)
