"""What the end of supervision means: outcome, exit code, reason. [pure]"""

from typing import NamedTuple

from ddplaunch.supervise.state import SignalReceived, State, WorkerExited
from ddplaunch.words import describe_exit, describe_ranks, describe_signal, exit_code_of


class Outcome(NamedTuple):
    name: str
    exit_code: int
    reason: str


def judge(state: State) -> Outcome:
    match state.cause:
        case None:
            return Outcome("success", 0, "all workers succeeded")
        case WorkerExited(rank=rank, returncode=returncode):
            reason = f"rank {rank}: {describe_exit(returncode)}"
            return Outcome("worker-failed", exit_code_of(returncode), reason + _unkillable(state))
        case SignalReceived(signum=signum):
            reason = f"the launcher received {describe_signal(signum)}"
            return Outcome("interrupted", 128 + signum, reason + _unkillable(state))


def _unkillable(state: State) -> str:
    return f"; {describe_ranks(state.alive)} could not be killed" if state.alive else ""
