"""The world as one rank sees it: who it is, where it computes, and how it meets the others."""

import os
import signal
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler

from ddplaunch.worker.checkpoint import map_to, save_atomically
from ddplaunch.worker.meeting import Meeting
from ddplaunch.worker.place import Place
from ddplaunch.worker.preemption import Preemption

StrPath = str | os.PathLike[str]


class World:
    """Made by process_group(). Methods that meet the others are called on every rank, in the same order."""

    def __init__(self, place: Place, devices: list[torch.device], meeting: Meeting, timeout: float) -> None:
        self.rank, self.local_rank, self.size = place.rank, place.local_rank, place.size
        self.node = _find_node(meeting) if place.node is None else place.node
        self.attempt = place.attempt
        self.devices = devices
        self._meeting, self._timeout = meeting, timeout
        self._preemptions: list[Preemption] = []
        meeting.is_asked_to_stop = lambda: any(one.is_asked for one in self._preemptions)

    @property
    def device(self) -> torch.device:
        """Where to put the model: `model.to(world.device)`."""
        return self.devices[0]

    @property
    def device_ids(self) -> list[int] | None:
        """For `DistributedDataParallel(model, device_ids=world.device_ids)`; None on CPUs, as it wants it."""
        return None if self.device.type == "cpu" else [int(device.index) for device in self.devices]

    @property
    def is_main(self) -> bool:
        """Rank 0: the one that prints and saves."""
        return self.rank == 0

    def barrier(self, timeout: float | timedelta | None = None) -> None:
        """Wait for all ranks; after `timeout` seconds a BarrierTimeoutError names those that did not come."""
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        self._meeting.gather("barrier", self._timeout if seconds is None else seconds)

    def zero_first(self, scope: Literal["node", "global"] = "node") -> AbstractContextManager[None]:
        """One rank of each node (or of the whole world, scope="global") does it first, then the others do:

        with world.zero_first():
            dataset = download_once_then_read()

        The others wait as long as it takes, or until the first fails.
        """
        if scope not in ("node", "global"):
            raise ValueError(f'scope is "node" or "global", not {scope!r}')
        if scope == "global":
            return self._meeting.take_turns("zero_first", self.rank == 0)
        return self._meeting.take_turns(f"zero_first on node {self.node}", self.local_rank == 0)

    def save(self, obj: Any, path: StrPath) -> None:
        """Rank 0 writes the file, whole or not at all; when the call returns, every rank can load it."""
        with self._meeting.take_turns("save", self.is_main):
            if self.is_main:
                save_atomically(obj, os.fspath(path))
        self.barrier()

    def load(self, path: StrPath, *, weights_only: bool = True) -> Any:
        """What `save` wrote, on this rank's own device; weights_only=False trusts the file to run code."""
        place = map_to(tuple(self.device_ids or ()), self.device.type)
        return torch.load(path, map_location=place, weights_only=weights_only)

    def sampler(
        self, dataset: Any, *, shuffle: bool = True, seed: int = 0, drop_last: bool = False
    ) -> "DistributedSampler[Any]":
        """This rank's share of a dataset; `sampler.set_epoch(epoch)` shuffles anew."""
        return DistributedSampler(
            dataset, num_replicas=self.size, rank=self.rank, shuffle=shuffle, seed=seed, drop_last=drop_last
        )

    def on_preemption(
        self, signals: Sequence[int] = (signal.SIGTERM, signal.SIGUSR1), every: int = 1
    ) -> Preemption:
        """A flag that turns True on all ranks at the same step once any of them got such a signal:

        preempted = world.on_preemption()
        for step, batch in enumerate(loader):
            ...
            if preempted():
                world.save({"step": step, ...}, "checkpoint.pt")
                break

        `every=10` has the ranks agree at every tenth call only.
        """
        group = None if dist.get_backend() == "gloo" else dist.new_group(backend="gloo")
        self._preemptions.append(Preemption(signals, every, group))
        return self._preemptions[-1]

    def release(self) -> None:
        for preemption in reversed(self._preemptions):
            preemption.release()


def _find_node(meeting: Meeting) -> int:
    """By host name, counted in the order of the ranks: MPI does not number its nodes."""
    own = os.uname().nodename
    return list(dict.fromkeys(meeting.exchange("hosts", own))).index(own)
