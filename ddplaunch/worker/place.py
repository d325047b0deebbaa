"""Who a worker is: by ddplaunch's or torchrun's variables, by Slurm's, or alone. [pure]"""

from collections.abc import Mapping

from ddplaunch.cluster.model import derive_port
from ddplaunch.cluster.slurm import is_step, read_hosts
from ddplaunch.config.settings import DEFAULT_MASTER_PORT
from ddplaunch.record import Record


class Place(Record):
    rank: int = 0
    local_rank: int = 0
    size: int = 1
    node: int | None = 0  # None: nobody says, and the ranks have to find out together
    attempt: int = 0
    device_ids: tuple[int, ...] = ()  # several cards per worker, as the launcher gave them out
    master: tuple[str, int] | None = None  # where the workers meet; None: torch's own variables say it
    is_alone: bool = False  # nobody to meet
    is_watched: bool = False  # a launcher ends the others when one fails


def identify(environ: Mapping[str, str]) -> Place:
    """A plain `python train.py` is a world of one."""
    if "RANK" in environ and "WORLD_SIZE" in environ:
        return _read_torch(environ)
    if is_step(environ) and int(environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
        return _read_slurm(environ)
    for names in (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
                  ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID")):  # fmt: skip
        if int(environ.get(names[1], "1")) > 1:
            return _read_mpi(environ, *names)
    return Place(is_alone=True)


def _read_mpi(environ: Mapping[str, str], rank: str, size: str, local_rank: str) -> Place:
    """`mpirun python train.py` with a process per worker: MPI does not say where they could meet."""
    if not environ.get("MASTER_ADDR"):
        said = f"{size}={environ[size]}, and MASTER_ADDR is not set"
        set_it = (
            "mpirun -x MASTER_ADDR=HOST" if rank.startswith("OMPI_") else "mpiexec -genv MASTER_ADDR HOST"
        )
        raise RuntimeError(f"{said}: {set_it}, or one ddplaunch per node instead")
    port = int(environ.get("MASTER_PORT", DEFAULT_MASTER_PORT))
    return Place(
        rank=int(environ[rank]),
        local_rank=int(environ.get(local_rank, "0")),
        size=int(environ[size]),
        node=None,
        master=(environ["MASTER_ADDR"], port),
    )


def _read_torch(environ: Mapping[str, str]) -> Place:
    rank = int(environ["RANK"])
    ids = environ.get("DDPLAUNCH_DEVICE_IDS", "")
    return Place(
        rank=rank,
        local_rank=int(environ.get("LOCAL_RANK", rank)),
        size=int(environ["WORLD_SIZE"]),
        node=int(environ.get("GROUP_RANK", environ.get("NODE_RANK", 0))),
        attempt=int(environ.get("DDPLAUNCH_ATTEMPT", environ.get("TORCHELASTIC_RESTART_COUNT", 0))),
        device_ids=tuple(map(int, ids.split(","))) if ids else (),
        is_watched="TORCHELASTIC_RUN_ID" in environ,
    )


def _read_slurm(environ: Mapping[str, str]) -> Place:
    """`srun python train.py` with a task per worker."""
    restarts = environ.get("SLURM_RESTART_COUNT", "0")
    port = derive_port(environ["SLURM_JOB_ID"], environ["SLURM_STEP_ID"], restarts)
    return Place(
        rank=int(environ["SLURM_PROCID"]),
        local_rank=int(environ["SLURM_LOCALID"]),
        size=int(environ["SLURM_STEP_NUM_TASKS"]),
        node=int(environ["SLURM_NODEID"]),
        attempt=int(restarts),
        master=(read_hosts(environ, "SLURM_STEP_NODELIST")[0], port),
    )


def choose_cards(place: Place, visible: int) -> tuple[int, ...]:
    """The numbers of this worker's cards among the visible ones; none on a machine without any."""
    if not visible:
        return ()
    cards = place.device_ids or ((0,) if visible == 1 else (place.local_rank,))  # one: it was isolated
    if max(cards) >= visible:
        shown = f"{visible} card{'' if visible == 1 else 's'} visible"
        raise RuntimeError(f"local rank {place.local_rank} wants card {max(cards)}, and there are {shown}")
    return cards
