"""The last block on the screen: what failed first, and why. [pure]"""

import signal

from ddplaunch.report.hints import find_hint
from ddplaunch.report.model import Failure, RunResult, WorkerRecord
from ddplaunch.report.stacks import find_odd_ranks, render_frames
from ddplaunch.report.tails import choose_lines, read_recorded
from ddplaunch.words import describe_exit, describe_ranks, describe_seconds


def render_report(result: RunResult) -> str:
    """Plain text that ends with what people want to copy; empty after a success."""
    if result.outcome == "success":
        return ""
    workers = result.attempts[-1].workers if result.attempts else ()
    if result.outcome == "worker-failed" and result.first_failure is not None:
        return _render_failure(result.first_failure, workers)
    if result.standings:
        return _render_stall(result, workers)
    return _render_end(result, workers)


def _render_failure(failure: Failure, workers: tuple[WorkerRecord, ...]) -> str:
    worker = failure.worker
    note = f", {failure.note}" if failure.note else ""
    lines = [
        f"ddplaunch: first failure: rank {worker.rank}, "
        f"{describe_exit(worker.returncode)}{note}, after {describe_seconds(worker.seconds)}",
        f"  where:  node {worker.node_rank}, host {worker.host}, pid {worker.pid}, "
        f"local rank {worker.local_rank}",
        *_render_others(worker, workers),
    ]
    chosen, origin = choose_lines(failure.tail), f"its last lines on {failure.tail_from}"
    if not chosen:  # its output did not pass through us
        chosen, origin = choose_lines(read_recorded(failure.error_file)), "what @record wrote"
    hint = find_hint(chosen, worker.returncode)
    if hint:
        lines.append(f"  hint:   {hint}")
    if chosen:
        lines += [f"  {origin}:", "", *chosen]
    return "\n".join(lines)


def _render_stall(result: RunResult, workers: tuple[WorkerRecord, ...]) -> str:
    """Where everybody stands, in a line each; then a stack per place."""
    lines = [f"ddplaunch: {result.reason.partition(';')[0]}"]
    lines += [f"  {describe_ranks(standing.ranks)}: {standing.place}" for standing in result.standings]
    odd = find_odd_ranks(result.standings)
    if odd:
        lines.append(f"  hint:   look at {describe_ranks(odd)} first: the others are all at one place")
    lines += _render_unkillable(workers)
    for standing in result.standings:
        lines += ["", f"{describe_ranks(standing.ranks)}:", *render_frames(standing.stack)]
    return "\n".join(lines)


def _render_end(result: RunResult, workers: tuple[WorkerRecord, ...]) -> str:
    lines = [f"ddplaunch: {result.reason}, after {describe_seconds(result.seconds)}"]
    return "\n".join(lines + _render_fates("workers", workers) + _render_unkillable(workers))


def _render_others(failed: WorkerRecord, workers: tuple[WorkerRecord, ...]) -> list[str]:
    others = tuple(worker for worker in workers if worker.rank != failed.rank)
    return _render_fates("others", others) + _render_unkillable(workers)


def _render_fates(title: str, workers: tuple[WorkerRecord, ...]) -> list[str]:
    """Who was stopped by us, who had gone before, and how."""
    fates: dict[str, list[int]] = {}
    for worker in workers:
        fates.setdefault(_describe_fate(worker), []).append(worker.rank)
    told = [f"{describe_ranks(ranks)} {fate}" for fate, ranks in fates.items() if fate]
    return [f"  {title + ':':<7} {', '.join(told)}"] if told else []


def _describe_fate(worker: WorkerRecord) -> str:
    if worker.returncode is None:
        return ""  # told elsewhere
    if worker.stopped_by_launcher:
        killed = worker.returncode == -signal.SIGKILL
        return "killed by the launcher" if killed else "stopped by the launcher"
    if worker.returncode == 0:
        return "had finished before"
    return f"failed too ({describe_exit(worker.returncode)})"


def _render_unkillable(workers: tuple[WorkerRecord, ...]) -> list[str]:
    left = [f"rank {worker.rank} (pid {worker.pid})" for worker in workers if worker.returncode is None]
    return [f"  left:   {', '.join(left)} could not be killed: stuck in the kernel"] if left else []
