"""Whose failure came first: who misses a peer may be gone before the peer, which cleans up. [pure]"""

from collections.abc import Mapping, Sequence

from ddplaunch.output.lines import LastLines
from ddplaunch.report.model import WorkerRecord
from ddplaunch.report.tails import choose_lines, has_traceback

# What gloo, NCCL and torch's store say of a connection that somebody else gave up.
_PEER_IS_GONE = (
    "Connection closed by peer",
    "Connection closed by remote peer",
    "Connection reset by peer",
    "Broken pipe",
    "Connection was likely closed",
    "ncclRemoteError",
    "remote process exit",
    "Timed out waiting",
)


def find_culprit(
    first: int,
    workers: Sequence[WorkerRecord],
    words: Mapping[int, LastLines],
    recorded_at: Mapping[int, float],
    failed_at: float,
) -> int:
    """The rank to report: `first`, who was over first, unless another one had failed by then.

    `words` are what the workers had said by then, `recorded_at` when @record wrote their exceptions; all
    times are of the same clock.
    """
    failing = {worker.rank: worker for worker in workers if worker.returncode != 0}
    before = {rank: at for rank, at in recorded_at.items() if rank in failing and at < failed_at}
    if before:
        return min(before, key=lambda rank: before[rank])
    if not misses_peer(words.get(first, LastLines())):
        return first
    suspects = [rank for rank in failing if rank != first and is_suspect(words.get(rank, LastLines()))]
    return min(suspects, key=lambda rank: (failing[rank].stopped_by_launcher, rank), default=first)


def find_suspect(workers: Sequence[WorkerRecord], words: Mapping[int, LastLines]) -> int | None:
    """A worker that had said why it fails before it was told to stop, on a node where none was over."""
    suspects = [worker.rank for worker in workers if is_suspect(words.get(worker.rank, LastLines()))]
    return min(suspects, default=None)


def misses_peer(said: LastLines) -> bool:
    """Whether a worker's last words are about somebody else's connection."""
    lines = choose_lines(choose_stream(said)[0])
    return any(mark in line for line in lines for mark in _PEER_IS_GONE)


def is_suspect(said: LastLines) -> bool:
    """Whether it has a reason of its own to end."""
    return has_traceback(choose_stream(said)[0]) and not misses_peer(said)


def choose_stream(said: LastLines) -> tuple[Sequence[str], str]:
    """stderr, unless only stdout has a traceback, or anything at all."""
    is_told = any(line.strip() for line in said.stderr)
    if not is_told or (has_traceback(said.stdout) and not has_traceback(said.stderr)):
        return said.stdout, "stdout"
    return said.stderr, "stderr"
