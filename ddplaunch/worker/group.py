"""process_group(): torch's process group with everything the tutorials write around it by hand."""

import itertools
import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ddplaunch.worker.meeting import Meeting
from ddplaunch.worker.place import Place, choose_cards, identify
from ddplaunch.worker.world import World

LET_GO_SECONDS = 0.02
TIMEOUT_SECONDS = 1800.0  # torch's own, for gloo

# Of this process.
_GROUPS = itertools.count()
_STORES: list[Any] = []
_LEFT_OVER: list[Place] = []


@contextmanager
def process_group(
    backend: str = "auto", timeout: float | timedelta = TIMEOUT_SECONDS, seed: int | None = None
) -> Iterator[World]:
    """Join the other ranks, and leave together.

    with process_group(seed=42) as world:
        model = DistributedDataParallel(Model().to(world.device), device_ids=world.device_ids)

    Works under ddplaunch and torchrun, as tasks of srun, and with a plain `python train.py` as a world of
    one. `backend="auto"` is nccl with cards and gloo without. `seed` is set on every rank alike.
    An exception is told to the other ranks: none of them waits for this one in a method of `world` any more.
    """
    place = identify(os.environ)
    _clear_up()
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    devices = _choose_devices(place)
    meeting = _meet(place, _choose_backend(backend, devices[0]), devices[0], seconds)
    world = World(place, devices, meeting, seconds)
    try:
        if seed is not None:
            _set_seed(seed)
        yield world
        meeting.leave(seconds)
    except BaseException as error:
        # Destroyed later, if at all: where a peer is in trouble, that may hang or crash, and hide it.
        _LEFT_OVER.append(place)
        meeting.tell_failure(error)
        raise
    finally:
        world.release()
        # gloo's threads let go of the last collective, for which they want the interpreter. When that is
        # about to end, Python ends the thread instead, inside a C++ destructor, and the process aborts.
        time.sleep(LET_GO_SECONDS)
    dist.destroy_process_group()


def _clear_up() -> None:
    """What an exception left of an earlier group; but somebody else's group is not ours to end."""
    if not dist.is_initialized():
        _LEFT_OVER.clear()
        return
    if not _LEFT_OVER:
        raise RuntimeError("torch.distributed is initialised already, and process_group() does that itself")
    _LEFT_OVER.clear()
    dist.destroy_process_group()


def _choose_devices(place: Place) -> list[torch.device]:
    if not torch.cuda.is_available():
        return [torch.device("cpu")]
    cards = choose_cards(place, torch.cuda.device_count())
    torch.cuda.set_device(cards[0])
    return [torch.device("cuda", card) for card in cards]


def _choose_backend(wanted: str, device: torch.device) -> str:
    if wanted != "auto":
        return wanted
    return "nccl" if device.type == "cuda" else "gloo"


def _open_store(place: Place, seconds: float) -> Any:
    """The store that the ranks share; rank 0's lasts as long as its process, for all groups of it."""
    limit = timedelta(seconds=seconds)
    if not _STORES:
        if place.is_alone:
            _STORES.append(dist.HashStore())
        elif place.master is not None:
            host, port = place.master
            _STORES.append(dist.TCPStore(host, port, place.size, place.rank == 0, limit))
        else:
            _STORES.append(next(dist.rendezvous("env://", timeout=limit))[0])
    _STORES[0].set_timeout(limit)
    return _STORES[0]


def _meet(place: Place, backend: str, device: torch.device, seconds: float) -> Meeting:
    """When all ranks have come.

    Attempts of a run may share a store under torchrun, and so may groups of one process, one after the other:
    each looks into a drawer of its own.
    """
    drawer, store = f"{place.attempt}/{next(_GROUPS)}", _open_store(place, seconds)
    dist.init_process_group(
        backend,
        store=dist.PrefixStore(f"torch/{drawer}", store),
        rank=place.rank,
        world_size=place.size,
        timeout=timedelta(seconds=seconds),
        device_id=device if device.type == "cuda" else None,
    )
    ours = dist.PrefixStore(f"ddplaunch/{drawer}", store)
    return Meeting(ours, place.rank, place.size, place.is_watched)


def _set_seed(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))
