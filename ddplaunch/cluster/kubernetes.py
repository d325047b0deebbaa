"""Pods: Kubeflow and whoever else sets torchrun's PET_* variables, and Indexed Jobs. [pure]"""

from ddplaunch.cluster.model import Allocation, Found, Surroundings, UnclearError, read_number, read_port

INDEXED_JOB_PORT = 29500

# The training operator's: RANK is the pod's.
_OPERATOR_SETS = frozenset({"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})


def detect_pet(where: Surroundings) -> Allocation | None:
    """PET_* are read as options; what else the platform says stands in torch's own variables."""
    environ = where.environ
    if not environ.get("PET_NNODES"):
        return None
    if environ["PET_NNODES"] in ("1", "1:1"):
        return Allocation("Kubeflow (PET_*)", sets=_OPERATOR_SETS)
    options = where.line.options
    backend = options.get("rdzv_backend") or environ.get("PET_RDZV_BACKEND")
    gives_ranks = ":" in environ["PET_NNODES"] or backend == "c10d"  # the run does
    if not gives_ranks and not (
        "node_rank" in options or environ.get("PET_NODE_RANK") or environ.get("DDPLAUNCH_NODE_RANK")
    ):
        raise UnclearError(
            f"PET_NNODES={environ['PET_NNODES']}, and PET_NODE_RANK is not set",
            "nobody says which of the nodes this is",
            "--node-rank R, or PET_NODE_RANK in the pod's environment",
            lambda given: "node_rank" in given or given.get("nnodes") == 1,
        )
    values = {}
    if environ.get("MASTER_ADDR"):
        values["master_addr"] = Found(environ["MASTER_ADDR"], "MASTER_ADDR")
    if environ.get("MASTER_PORT"):
        values["master_port"] = Found(read_port(environ, "MASTER_PORT"), "MASTER_PORT")
    return Allocation("Kubeflow (PET_*)", values, sets=_OPERATOR_SETS)


def detect_indexed_job(where: Surroundings) -> Allocation | None:
    """The index is the node rank; how many pods there are is not told inside one."""
    environ, options = where.environ, where.line.options
    if "JOB_COMPLETION_INDEX" not in environ:
        return None
    if "nnodes" not in options and not environ.get("DDPLAUNCH_NNODES"):
        raise UnclearError(
            f"JOB_COMPLETION_INDEX={environ['JOB_COMPLETION_INDEX']}, and nobody says how many pods",
            "Kubernetes tells an Indexed Job's pods their index only",
            f"{where.corrected(nnodes='COMPLETIONS')}; or --standalone, if each pod is a run of its own",
        )
    node_rank = read_number(environ, "JOB_COMPLETION_INDEX")
    values = {
        "node_rank": Found(node_rank, "JOB_COMPLETION_INDEX"),
        "master_port": Found(INDEXED_JOB_PORT, "Kubernetes"),
    }
    master = _find_first_pod(where, node_rank)
    if master:
        values["master_addr"] = Found(master, f"host name {where.host}, /etc/hosts")
    return Allocation("Kubernetes Indexed Job", values)


def _find_first_pod(where: Surroundings, node_rank: int) -> str:
    """`job-3.service.space.svc.cluster.local` -> `job-0.service...`; no subdomain, no such name."""
    short = where.host.partition(".")[0]
    job, dash, index = short.rpartition("-")
    if not dash or index != str(node_rank):
        return ""
    lines = where.files.get("/etc/hosts", "").splitlines()
    names = [name for line in lines for name in line.partition("#")[0].split()[1:]]
    full = next((name for name in (where.host, *names) if name.startswith(f"{short}.")), "")
    return f"{job}-0.{full.partition('.')[2]}" if full else ""
