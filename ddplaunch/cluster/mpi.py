"""MPI's own launchers, told to start one process per node: a table of their variables. [pure]"""

from ddplaunch.cluster import batch, slurm
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
)
from ddplaunch.record import Record


class Mpi(Record):
    name: str
    rank: str
    size: str
    local_size: str  # where it is not set, nothing is known about neighbours
    job: str  # the same for all processes of an mpirun, and for no other's; empty: there is none
    one_per_node: str  # how to start one process on each of {nodes} nodes


OPENMPI = Mpi(
    "OpenMPI",
    "OMPI_COMM_WORLD_RANK",  # never OMPI_COMM_WORLD_NODE_RANK, which counts within a node
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMIX_NAMESPACE",
    "mpirun -np {nodes} --map-by ppr:1:node --bind-to none",
)
MVAPICH = Mpi(
    "MVAPICH",
    "MV2_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_SIZE",
    "MV2_COMM_WORLD_LOCAL_SIZE",
    "",
    "mpiexec -n {nodes} -ppn 1",
)
PALS = Mpi("Cray PALS", "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_SIZE", "", "mpiexec -n {nodes} --ppn 1")
PMI = Mpi("MPICH or Intel MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "", "mpiexec -n {nodes} -ppn 1")


def detect_openmpi(where: Surroundings) -> Allocation | None:
    return _detect(OPENMPI, where)


def detect_mvapich(where: Surroundings) -> Allocation | None:
    return _detect(MVAPICH, where)


def detect_pals(where: Surroundings) -> Allocation | None:
    return _detect(PALS, where) if PALS.rank in where.environ else None


def detect_hydra(where: Surroundings) -> Allocation | None:
    """mpiexec itself says how many of its processes share a node; srun, which sets PMI_RANK too, does not."""
    return _detect(PMI, where) if PMI.local_size in where.environ else None


def detect_pmi(where: Surroundings) -> Allocation | None:
    return _detect(PMI, where)


def _detect(mpi: Mpi, where: Surroundings) -> Allocation | None:
    environ = where.environ
    if mpi.rank not in environ and mpi.size not in environ:
        return None
    size, rank = read_number(environ, mpi.size, 1), read_number(environ, mpi.rank)
    check_rank(rank, size, quote(environ, mpi.rank, mpi.size))
    refuse_neighbours(mpi, where)
    if size == 1:
        return Allocation(mpi.name)
    values = {"nnodes": Found(size, mpi.size), "node_rank": Found(rank, mpi.rank)}
    outer = _find_outer_hosts(where)
    if outer is not None:
        values["master_addr"] = Found(outer[0][0], outer[1])
    job = mpi.job if mpi.job in environ else _find_job(where)
    if job:
        values["master_port"] = Found(derive_port(environ[job]), job)
    return Allocation(mpi.name, values)


def _find_outer_hosts(where: Surroundings) -> tuple[list[str], str] | None:
    """Of the job around mpirun: its first host can be the master."""
    return slurm.find_hosts(where) or batch.find_hosts(where)


def _find_job(where: Surroundings) -> str:
    """The job around mpirun: where there is one, all its nodes know it."""
    inside = (
        "SLURM_JOB_ID",
        *(each.job_variable for each in batch.SCHEDULERS if each.hosts_variable in where.environ),
    )
    return next((name for name in inside if name in where.environ), "")


def refuse_neighbours(mpi: Mpi, where: Surroundings) -> None:
    """One process per card is what MPI programs want; ours starts the workers of its node itself."""
    environ = where.environ
    if mpi.local_size not in environ:
        return
    local, size = read_number(environ, mpi.local_size, 1), read_number(environ, mpi.size, 1)
    if local == 1:
        return
    nproc = where.line.options.get("nproc_per_node") or str(local)
    given = where.line.options.get("master_addr")
    if size == local and given is None:
        command = where.without(TOPOLOGY, nproc_per_node=nproc)
    else:  # who names a master has several nodes in mind, also where all processes came to one
        nodes = "NODES" if size % local or size == local else str(size // local)
        address = {} if given or _find_outer_hosts(where) else {"master_addr": "HOST"}
        command = where.without(PLACE, nproc_per_node=nproc, **address)
        command = f"{mpi.one_per_node.format(nodes=nodes)} {command}"
    raise UnclearError(
        f"{local} ddplaunch were started on this node; one starts all its workers",
        quote(environ, mpi.size, mpi.local_size),
        command,
        lambda given: answers_place(given) and given["nnodes"] == size,
    )
