"""The last block on the screen: what failed first, and why. [pure]"""

import signal

from ddplaunch.plan.model import find_node_logs
from ddplaunch.report.hints import find_hint
from ddplaunch.report.model import Failure, RunResult, WorkerRecord
from ddplaunch.report.stacks import find_odd_ranks, render_frames
from ddplaunch.report.tails import choose_lines, has_traceback, read_recorded
from ddplaunch.words import describe_exit, describe_ranks, describe_seconds


def render_report(result: RunResult, width: int | None = None) -> str:
    """Plain text that ends with what people want to copy; our own words are folded to `width`."""
    if result.outcome == "success":
        return ""
    workers = result.attempts[-1].workers if result.attempts else ()
    if result.outcome == "worker-failed" and result.first_failure is not None:
        head, body = _render_failure(result, result.first_failure, workers)
    elif result.standings:
        head, body = _render_stall(result, workers)
    else:
        head, body = _render_end(result, workers), []
    return "\n".join([*(row for line in head for row in _fold(line, width)), *body])


def _render_failure(
    result: RunResult, failure: Failure, workers: tuple[WorkerRecord, ...]
) -> tuple[list[str], list[str]]:
    worker = failure.worker
    note = f", {failure.note}" if failure.note else ""
    how = describe_exit(worker.returncode) if worker.ended_itself else "an exception"
    seconds = describe_seconds(worker.seconds)
    head = [
        f"ddplaunch: first failure: rank {worker.rank}, {how}{note}, after {seconds}",
        f"  where:  node {worker.node_rank}, host {worker.host}, pid {worker.pid}, "
        f"local rank {worker.local_rank}",
        *_render_others(worker, workers),
    ]
    if result.log_dir is not None:
        directory, name = result.log_dir, f"rank_{worker.rank}.log"
        if result.splits_logs:
            directory, name = find_node_logs(directory, worker.node_rank), str(worker.local_rank)
        head.append(f"  logs:   {directory}/attempt_{result.attempts[-1].attempt}/{name}")
    chosen, origin = choose_lines(failure.tail), f"its last lines on {failure.tail_from}"
    if failure.same:
        origin += f" (x{len(failure.same) + 1}: the same on {describe_ranks(failure.same)})"
    recorded = choose_lines(read_recorded(failure.error_file))
    if recorded and not has_traceback(chosen):  # its output did not pass through us, or did not come to it
        chosen, origin = recorded, "what @record wrote"
    hint = find_hint(chosen, worker.returncode) or result.hint
    if hint:
        head.append(f"  hint:   {hint}")
    return head, [f"  {origin}:", "", *chosen] if chosen else []


def _render_stall(result: RunResult, workers: tuple[WorkerRecord, ...]) -> tuple[list[str], list[str]]:
    """Where everybody stands, in a line each; then a stack per place."""
    lines = [f"ddplaunch: {result.reason.partition(';')[0]}"]
    lines += [f"  {describe_ranks(standing.ranks)}: {standing.place}" for standing in result.standings]
    odd = find_odd_ranks(result.standings)
    if odd:
        lines.append(f"  hint:   look at {describe_ranks(odd)} first: the others wait")
    lines += _render_unkillable(workers) + _render_logs(result)
    stacks: list[str] = []
    for standing in result.standings:
        stacks += ["", f"{describe_ranks(standing.ranks)}:", *render_frames(standing.stack)]
    return lines, stacks


def _render_end(result: RunResult, workers: tuple[WorkerRecord, ...]) -> list[str]:
    lines = [f"ddplaunch: {result.reason}, after {describe_seconds(result.seconds)}"]
    lines += _render_fates("workers", workers) + _render_unkillable(workers) + _render_logs(result)
    return lines + ([f"  hint:   {result.hint}"] if result.hint else [])


def _render_logs(result: RunResult) -> list[str]:
    return [] if result.log_dir is None else [f"  logs:   {result.log_dir}"]


def _render_others(failed: WorkerRecord, workers: tuple[WorkerRecord, ...]) -> list[str]:
    others = tuple(worker for worker in workers if worker.rank != failed.rank)
    return _render_fates("others", others) + _render_unkillable(workers)


def _render_fates(title: str, workers: tuple[WorkerRecord, ...]) -> list[str]:
    """Who was stopped by us, who had gone before, and how."""
    fates: dict[str, list[int]] = {}
    for worker in workers:
        fates.setdefault(_describe_fate(worker, title), []).append(worker.rank)
    told = [f"{describe_ranks(ranks)} {fate}" for fate, ranks in fates.items() if fate]
    return [f"  {title + ':':<7} {', '.join(told)}"] if told else []


def _describe_fate(worker: WorkerRecord, title: str) -> str:
    if worker.returncode is None:
        return ""  # told elsewhere
    if worker.stopped_by_launcher:
        killed = worker.returncode == -signal.SIGKILL
        return "killed by the launcher" if killed else "stopped by the launcher"
    if worker.returncode == 0:
        return "had finished before"
    too = " too" if title == "others" else ""
    return f"failed{too} ({describe_exit(worker.returncode)})"


def _render_unkillable(workers: tuple[WorkerRecord, ...]) -> list[str]:
    left = [f"rank {worker.rank} (pid {worker.pid})" for worker in workers if worker.returncode is None]
    return [f"  left:   {', '.join(left)} could not be killed (stuck in the kernel?)"] if left else []


def _fold(line: str, width: int | None) -> list[str]:
    """Onto as many rows as a terminal needs; what goes on is indented under what it belongs to."""
    if width is None or len(line) <= width:
        return [line]
    import textwrap

    indent = " " * 10
    return textwrap.wrap(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
