"""A signal that some ranks get now and others later: one answer for all, at the same step."""

import signal
from collections.abc import Sequence
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist


class Preemption:
    """Ask it once per step, on every rank: `if preempted(): ...`. All ranks get the same answer."""

    def __init__(self, signals: Sequence[int], every: int, group: Any) -> None:
        self.is_asked = False  # on this rank
        self._is_agreed = False
        self._every, self._group, self._calls = every, group, 0
        self._before = {signum: signal.signal(signum, self._note) for signum in signals}

    def __call__(self) -> bool:
        """Whether any rank has been asked to stop. From the first True on it is always True."""
        self._calls += 1
        if self._is_agreed or self._calls % self._every:
            return self._is_agreed
        asked = torch.tensor([int(self.is_asked)])
        dist.all_reduce(asked, dist.ReduceOp.MAX, group=self._group)
        self._is_agreed = bool(asked.item())
        return self._is_agreed

    def release(self) -> None:
        """The signals mean what they meant before.

        Unless the ranks stop because one of them was asked to: this one's own signal may still be on its way,
        and where nothing else handles it, it would kill a worker that is already leaving.
        """
        for signum, handler in self._before.items():
            may_be_late = self._is_agreed and handler == signal.SIG_DFL
            if signal.getsignal(signum) == self._note and not may_be_late:
                signal.signal(signum, handler)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.is_asked = True
        earlier = getattr(self._before.get(signum), "__self__", None)
        if isinstance(earlier, Preemption):  # somebody else in this script asked for the same
            earlier._note(signum, frame)
