"""Who a worker is, from its environment alone; and where what it loads belongs."""

import pytest

from ddplaunch.worker.place import Place, choose_cards, identify

TORCHRUN = {
    "RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "GROUP_RANK": "2", "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "3",
}  # fmt: skip
SLURM = {
    "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_STEP_NODELIST": "n[4-5]", "SLURM_RESTART_COUNT": "2",
}  # fmt: skip


def test_under_a_launcher() -> None:
    assert identify(TORCHRUN) == Place(5, 1, 8, 2, 3, is_watched=True)
    assert identify({**TORCHRUN, "DDPLAUNCH_DEVICE_IDS": "2,3"}).device_ids == (2, 3)
    assert identify({**SLURM, **TORCHRUN}).rank == 5


def test_as_a_task_of_srun() -> None:
    place = identify(SLURM)
    assert (place.rank, place.local_rank, place.size, place.node, place.attempt) == (3, 1, 4, 1, 2)
    assert place.master is not None
    assert place.master[0] == "n4"


def test_as_a_process_of_mpirun() -> None:
    """Which node it is on, nobody says."""
    openmpi = {f"OMPI_COMM_WORLD_{name}": value for name, value in
               {"RANK": "3", "SIZE": "4", "LOCAL_RANK": "1"}.items()}  # fmt: skip
    hydra = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1"}
    for environ, hint in ((openmpi, "mpirun -x MASTER_ADDR=HOST"), (hydra, "mpiexec -genv MASTER_ADDR HOST")):
        assert identify({**environ, "MASTER_ADDR": "n0"}) == Place(3, 1, 4, None, master=("n0", 29500))
        with pytest.raises(RuntimeError, match=hint):
            identify(environ)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"RANK": "3"},
        {**SLURM, "SLURM_STEP_NUM_TASKS": "1"},  # srun --pty bash
        {name: value for name, value in SLURM.items() if name != "SLURM_STEP_ID"},  # sbatch
    ],
)
def test_alone(environ: dict[str, str]) -> None:
    assert identify(environ) == Place(is_alone=True)


@pytest.mark.parametrize(
    ("place", "visible", "cards"),
    [
        (Place(local_rank=3), 0, ()),
        (Place(local_rank=3), 4, (3,)),
        (Place(local_rank=3), 1, (0,)),  # --isolate-gpus
        (Place(local_rank=1, device_ids=(2, 3)), 4, (2, 3)),
        (Place(local_rank=1, device_ids=(0, 1)), 2, (0, 1)),
    ],
)
def test_cards(place: Place, visible: int, cards: tuple[int, ...]) -> None:
    assert choose_cards(place, visible) == cards


def test_more_workers_than_cards() -> None:
    with pytest.raises(RuntimeError, match="local rank 2 wants card 2, and there are 2 cards visible"):
        choose_cards(Place(local_rank=2), 2)
