"""Which scheduler started this launcher: the first that recognises its own variables speaks. [pure]"""

from collections.abc import Callable

from ddplaunch.cluster import batch, cloud, kubernetes, mpi, slurm
from ddplaunch.cluster.model import Allocation, Found, Surroundings, UnclearError, read_number, read_port

Detector = Callable[[Surroundings], Allocation | None]


def detect_bare(where: Surroundings) -> Allocation | None:
    """MASTER_ADDR and NODE_RANK as people export them by hand. In a worker's environment they are stale."""
    environ = where.environ
    is_wanted = "nnodes" in where.line.options or environ.get("DDPLAUNCH_NNODES")
    if "LOCAL_RANK" in environ or not is_wanted:
        return None
    values: dict[str, Found] = {}
    if environ.get("NODE_RANK"):
        values["node_rank"] = Found(read_number(environ, "NODE_RANK"), "NODE_RANK")
    if environ.get("MASTER_ADDR"):
        values["master_addr"] = Found(environ["MASTER_ADDR"], "MASTER_ADDR")
    if environ.get("MASTER_PORT"):
        values["master_port"] = Found(read_port(environ, "MASTER_PORT"), "MASTER_PORT")
    if not values:
        return None
    return Allocation("environment", values, sets=frozenset({"MASTER_ADDR", "MASTER_PORT", "NODE_RANK"}))


# mpirun and mpiexec inside Slurm may show a step of their own daemons: they come first. srun sets PMI_RANK,
# too. A Slurm job without a step may hold an mpiexec of another kind.
DETECTORS: tuple[tuple[str, Detector], ...] = (
    ("Kubeflow (PET_*)", kubernetes.detect_pet),
    ("SageMaker", cloud.detect_sagemaker),
    ("AzureML", cloud.detect_azureml),
    ("Vertex AI", cloud.detect_vertex),
    ("SkyPilot", cloud.detect_skypilot),
    ("Kubernetes Indexed Job", kubernetes.detect_indexed_job),
    ("OpenMPI", mpi.detect_openmpi),
    ("MPICH or Intel MPI", mpi.detect_hydra),
    ("Slurm", slurm.detect_step),
    ("MVAPICH", mpi.detect_mvapich),
    ("Cray PALS", mpi.detect_pals),
    ("MPICH or Intel MPI", mpi.detect_pmi),
    ("Slurm", slurm.detect_job),
    ("PBS", batch.detect_pbs),
    ("LSF", batch.detect_lsf),
    ("SGE", batch.detect_sge),
    ("environment", detect_bare),
)


def detect(where: Surroundings) -> Allocation | None:
    """None: no scheduler. What does not add up is a problem of the allocation, for preflight to tell."""
    found = _find_speaker(where)
    if found is None or not where.environ.get("SLURM_JOB_ID"):
        return found
    try:
        return slurm.add_job(found, where.environ)
    except UnclearError as unclear:
        return found._replace(problems=(*found.problems, unclear.problem), is_answered=unclear.is_answered)


def _find_speaker(where: Surroundings) -> Allocation | None:
    for scheduler, detector in DETECTORS:
        try:
            found = detector(where)
        except UnclearError as unclear:
            return Allocation(scheduler, problems=(unclear.problem,), is_answered=unclear.is_answered)
        if found is not None:
            return found
    return None
