"""For training scripts: what they write by hand around torch.distributed, small and optional.

from ddplaunch.worker import process_group

with process_group(seed=42) as world:
    ...
"""

from ddplaunch.worker.group import process_group
from ddplaunch.worker.meeting import BarrierTimeoutError, PeerFailedError
from ddplaunch.worker.preemption import Preemption
from ddplaunch.worker.world import World

__all__ = ["BarrierTimeoutError", "PeerFailedError", "Preemption", "World", "process_group"]
