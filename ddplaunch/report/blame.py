"""Whose failure came first: who misses a peer may be gone before the peer, which cleans up. [pure]"""

import re
from collections.abc import Mapping, Sequence

from ddplaunch.output.lines import LastLines
from ddplaunch.report.model import ErrorFile, WorkerRecord
from ddplaunch.report.tails import choose_lines, ends_in_traceback, has_traceback, read_recorded

# What gloo, NCCL and torch's store say of a connection that somebody else gave up.
_PEER_IS_GONE = re.compile(
    r"Connection closed by (remote )?peer"
    r"|Connection reset by peer"
    r"|Timed out waiting \d+ms for (recv|send) operation"
    r"|Dist\w*Error.*Broken pipe"
    r"|Connection was likely closed"
    r"|ncclRemoteError|remote process exit"
)


def find_culprit(
    first: int,
    workers: Sequence[WorkerRecord],
    words: Mapping[int, LastLines],
    errors: Mapping[int, ErrorFile],
    failed_at: float,
) -> int:
    """The rank to report: `first`, who was over first, unless another one had failed by then.

    `words` are what the workers had said by then.
    """
    failing = {worker.rank: worker for worker in workers if worker.returncode != 0}
    reasons = [rank for rank in errors.keys() & failing if not _misses(read_recorded(errors[rank].content))]
    before = [rank for rank in reasons if errors[rank].written_at < failed_at]
    if before:
        return min(before, key=lambda rank: errors[rank].written_at)
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
    return _misses(choose_lines(choose_stream(said)[0]))


def is_suspect(said: LastLines) -> bool:
    """Whether it has a reason of its own to end."""
    return has_traceback(choose_stream(said)[0]) and not misses_peer(said)


def choose_stream(said: LastLines) -> tuple[Sequence[str], str]:
    """stderr, unless there is nothing, or nothing but warnings while stdout ends in a traceback."""
    is_told = any(line.strip() for line in said.stderr)
    if not is_told or (ends_in_traceback(said.stdout) and not has_traceback(said.stderr)):
        return said.stdout, "stdout"
    return said.stderr, "stderr"


def _misses(lines: Sequence[str]) -> bool:
    return any(_PEER_IS_GONE.search(line) for line in lines)
