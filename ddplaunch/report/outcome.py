"""What the end of supervision means: outcome, exit code, reason. [pure]"""

from collections.abc import Sequence

from ddplaunch.errors import EXIT_LOST
from ddplaunch.record import Record
from ddplaunch.report.stacks import Standing
from ddplaunch.supervise.events import SignalReceived, Stalled, StopOrdered, TimedOut, WorkerExited
from ddplaunch.supervise.state import State
from ddplaunch.words import (
    describe_exit,
    describe_ranks,
    describe_seconds,
    describe_signal,
    exit_code_of,
)

EXIT_STALLED = 6
EXIT_TIMEOUT = 124  # as timeout(1)


class Outcome(Record):
    name: str
    exit_code: int
    reason: str


def judge(state: State, standings: Sequence[Standing] = ()) -> Outcome:
    outcome = _judge_cause(state, standings)
    if not state.alive:
        return outcome
    return outcome._replace(reason=f"{outcome.reason}; {describe_ranks(state.alive)} could not be killed")


def _judge_cause(state: State, standings: Sequence[Standing]) -> Outcome:
    match state.cause:
        case None:
            return Outcome("success", 0, "all workers succeeded")
        case WorkerExited(rank=rank, returncode=returncode):
            return Outcome(
                "worker-failed", exit_code_of(returncode), f"rank {rank}: {describe_exit(returncode)}"
            )
        case SignalReceived(signum=signum):
            return Outcome("interrupted", 128 + signum, f"the launcher received {describe_signal(signum)}")
        case Stalled(silent_seconds=seconds):
            return Outcome("stalled", EXIT_STALLED, describe_stall(seconds, standings))
        case TimedOut():
            return Outcome("timeout", EXIT_TIMEOUT, "--timeout was reached")
        case StopOrdered(text=text):  # what that means is for node 0 to say
            return Outcome("node-lost", EXIT_LOST, text)


def describe_stall(seconds: float, standings: Sequence[Standing]) -> str:
    where = "; ".join(f"{describe_ranks(standing.ranks)}: {standing.place}" for standing in standings)
    reason = f"stalled: no output and next to no CPU use for {describe_seconds(seconds)}"
    return f"{reason}; {where}" if where else reason
