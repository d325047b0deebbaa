"""Why an attempt of many nodes ended, in the words that every node prints. [pure]"""

import signal
from collections.abc import Mapping, Sequence

from ddplaunch.errors import EXIT_JOIN, EXIT_LOST, EXIT_PREFLIGHT, Problem
from ddplaunch.nodes import messages
from ddplaunch.nodes.messages import Account, Cause, Status, Verdict
from ddplaunch.nodes.wire import VERSION
from ddplaunch.output.lines import LastLines
from ddplaunch.record import Record
from ddplaunch.report.blame import is_suspect, misses_peer
from ddplaunch.report.model import Failure
from ddplaunch.report.outcome import EXIT_STALLED, EXIT_TIMEOUT, describe_stall
from ddplaunch.report.stacks import merge_standings
from ddplaunch.report.tails import is_same_traceback
from ddplaunch.words import describe_exit, describe_runs, describe_signal, exit_code_of

# A node that vanished takes connections of workers elsewhere with it: what failed there within this time of
# its vanishing may have been seen first, and came second. Silence itself takes its time to be noticed.
LOSS_FIRST_SECONDS, NOTICE_SHARE = 1.0, 0.2  # and this much of --heartbeat-timeout

MOST_NAMED = 8

SUCCESS = Verdict("success", 0, "all workers succeeded")


class End(Record):
    """A reason to end an attempt, and when it came up by node 0's clock."""

    kind: str
    at: float
    attempt: int
    node: int  # its place
    host: str
    place: str  # as it is called
    rank: int = -1
    returncode: int = 0
    signum: int = 0
    problems: tuple[Problem, ...] = ()


def date_ending(status: Status, at: float, place: str) -> End:
    """Age, not time of day, travels: clocks of machines differ, and the message may have been waiting."""
    ending = status.ending
    assert ending is not None
    return End(
        ending.kind,
        at - ending.age,
        status.attempt,
        status.node,
        status.hello.host,
        place,
        ending.rank,
        ending.returncode,
        ending.signum,
        ending.problems,
    )


def find_first(ends: Sequence[End], heartbeat_seconds: float) -> End | None:
    """What came first is the cause of the rest; a failed worker may be a consequence of a loss."""
    is_loss = any(end.kind == messages.LOST for end in ends)
    lead = LOSS_FIRST_SECONDS + NOTICE_SHARE * heartbeat_seconds if is_loss else 0.0
    return min(ends, key=lambda end: end.at + (lead if end.kind == messages.FAILED else 0.0), default=None)


def describe_cause(first: End) -> Cause:
    """What the other nodes are told while they stop."""
    match first.kind:
        case messages.FAILED:
            text = f"rank {first.rank} on {first.place} failed: {describe_exit(first.returncode)}"
        case messages.SIGNAL:
            text = f"{first.place} received {describe_signal(first.signum)}"
        case messages.TIMEOUT:
            text = f"--timeout was reached on {first.place}"
        case messages.LOST:
            text = f"{first.place} was lost"
        case messages.JOINED:
            text = f"{first.place} joins the run"
        case messages.STALLED:
            text = "no worker on any node gets anywhere"
        case _:
            text = f"{first.place} cannot go on"
    return Cause(first.kind, text, first.signum if first.kind == messages.SIGNAL else signal.SIGTERM)


def judge_end(
    first: End,
    accounts: Mapping[int, Account],
    heartbeat_seconds: float = 0.0,
    stall_seconds: float = 0.0,
) -> Verdict:
    """What the end of an attempt means; `accounts` are those of the nodes that could still give one."""
    match first.kind:
        case messages.FAILED:
            return _failed(first, _find_failure(first, accounts))
        case messages.SIGNAL:
            return interrupted(first.place, first.signum)
        case messages.TIMEOUT:
            return Verdict("timeout", EXIT_TIMEOUT, f"--timeout was reached on {first.place}")
        case messages.STALLED:
            standings = merge_standings([account.standings for account in accounts.values()])
            reason = describe_stall(stall_seconds, standings)
            return Verdict("stalled", EXIT_STALLED, reason, standings=standings)
        case messages.LOST:
            return _lost(first, heartbeat_seconds)
        case messages.JOINED:
            return Verdict("joined", 0, f"{first.place} joins the run")
        case _:
            problems = tuple(one._replace(what=f"{first.place}: {one.what}") for one in first.problems)
            return refuse(problems)


def not_cleared(first: End) -> Verdict:
    """A node came, and the workers of the attempt before could not all be ended."""
    return Verdict(
        "node-lost", EXIT_LOST, f"{first.place} joins the run, and not every node could begin anew"
    )


def _lost(first: End, heartbeat_seconds: float) -> Verdict:
    reason = f"{first.place} was lost: no sign of life (--heartbeat-timeout {heartbeat_seconds:g} s)"
    hint = f"look at {first.host}: power, network, whether its launcher was killed"
    return Verdict("node-lost", EXIT_LOST, reason, hint=hint)


def _failed(first: End, failure: Failure | None) -> Verdict:
    """The worker that failed first; its node may have told of another one, which it took along."""
    rank, place, code = first.rank, first.place, first.returncode
    if failure is not None and failure.worker.rank != rank:
        worker = failure.worker
        rank, place = worker.rank, messages.name_place(worker.node_rank, worker.host)
        code = worker.returncode if worker.ended_itself and worker.returncode else code
    reason = f"rank {rank} on {place}: {describe_exit(code)}"
    return Verdict("worker-failed", exit_code_of(code), reason, failure)


def _find_failure(first: End, accounts: Mapping[int, Account]) -> Failure | None:
    """The failed worker's own last words, and who else said the same."""
    account = accounts.get(first.node)
    told = None if account is None else account.failure
    others = [
        other.failure for node, other in accounts.items() if node != first.node and other.failure is not None
    ]
    culprits = [other for other in others if is_suspect(LastLines(other.tail))]
    failure = told
    if told is None or misses_peer(LastLines(told.tail)):
        failure = min(culprits, key=lambda one: one.worker.rank, default=told)
    if failure is None:
        return None
    same = [
        rank
        for other in others
        if other is not failure and is_same_traceback(failure.tail, other.tail)
        for rank in (other.worker.rank, *other.same)
    ]
    return failure._replace(same=tuple(sorted((*failure.same, *same))))


def interrupted(place: str, signum: int) -> Verdict:
    return Verdict("interrupted", 128 + signum, f"{place} received {describe_signal(signum)}")


def refuse(problems: Sequence[Problem]) -> Verdict:
    """The run does not come about."""
    code = problems[0].exit_code
    outcome = "join" if code == EXIT_JOIN else "preflight" if code == EXIT_PREFLIGHT else "usage"
    return Verdict(outcome, code, "; ".join(one.what for one in problems), problems=tuple(problems))


def refuse_version(version: int) -> Verdict:
    problem = Problem(
        "the nodes do not run the same ddplaunch",
        f"node 0 speaks version {VERSION} of its language, this node {version}",
        "install the same version of ddplaunch on every node",
        EXIT_JOIN,
    )
    return refuse((problem,))


def not_all_came(waiting: str, noticed: Sequence[End], turned_away: Sequence[str]) -> Verdict:
    """--join-timeout is over; after the loss of a node, that remains the reason."""
    lost = find_first([end for end in noticed if end.kind == messages.LOST], 0.0)
    if lost is not None:
        return _lost(lost, 0.0)._replace(reason=f"{lost.place} was lost, and did not come back for a restart")
    hint = (
        "start ddplaunch on every node, with the same --master-addr or --rdzv-endpoint; --join-timeout says "
        "how long to wait"
    )
    if turned_away:
        hint = f"turned away: {', '.join(turned_away)} (another DDPLAUNCH_TOKEN, or none)"
    problem = Problem("the nodes did not come together within --join-timeout", waiting, hint, EXIT_JOIN)
    return refuse((problem,))


def describe_gathering(hosts: Sequence[str], least: int, most: int) -> str:
    """`waiting for 1 more node (have host-a)`, or for as many as may still come."""
    ready, here = len(hosts), _list_hosts(hosts)
    short = least - ready
    if short > 0:
        return f"waiting for {short} more {'node' if short == 1 else 'nodes'} (have {here})"
    return f"starting soon with {ready} of at most {most} nodes (have {here})"


def describe_waiting(absent: Sequence[int], hosts: Mapping[int, str]) -> str:
    """`waiting for node 2 (have 0 host-a, 1 host-b)`."""
    noun = "node" if len(absent) == 1 else "nodes"
    here = _list_hosts([f"{node} {host}" for node, host in sorted(hosts.items())])
    return f"waiting for {noun} {describe_runs(absent, ', ')} (have {here})"


def _list_hosts(hosts: Sequence[str]) -> str:
    more = f" and {len(hosts) - MOST_NAMED} more" if len(hosts) > MOST_NAMED else ""
    return ", ".join(hosts[:MOST_NAMED]) + more or "none"


def describe_busy(names: Mapping[str, Sequence[str]]) -> str:
    """`waiting for node 1 (n1) to stop, node 2 (n2) to come back`."""
    told = [f"{', '.join(nodes[:MOST_NAMED])} to {doing}" for doing, nodes in names.items()]
    return f"waiting for {', '.join(told)}"
