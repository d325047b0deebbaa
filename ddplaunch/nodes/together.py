"""What follows an attempt of many nodes: what node 0 says, the same for all."""

import time

from ddplaunch.errors import Problem
from ddplaunch.fate import Following, announce_restart
from ddplaunch.job import Setting
from ddplaunch.nodes import messages
from ddplaunch.nodes.company import Company
from ddplaunch.nodes.messages import Account, Verdict
from ddplaunch.nodes.wire import is_portable
from ddplaunch.report.model import Failure, RunResult
from ddplaunch.report.stacks import Standing
from ddplaunch.supervise.loop import Supervisor
from ddplaunch.supervise.tether import Tether

# What travels to every node fits into one message.
MOST_LINES, LONGEST_LINE = 100, 1000
MOST_STANDINGS, MOST_FRAMES = 16, 40
LARGEST_ERROR_FILE = 1 << 16


class Together:
    def __init__(self, setting: Setting, company: Company, tether: Tether, timeout_at: float | None) -> None:
        self._setting, self._company = setting, company
        self._tether, self._timeout_at = tether, timeout_at

    def follow(self, supervisor: Supervisor, result: RunResult, is_clear: bool) -> Following:
        """Give account of this node's part, and hear what becomes of the run."""
        company, attempt, number = self._company, result.attempts[-1], self._company.status.attempt
        account = Account(
            workers=attempt.workers,
            seconds=attempt.seconds,
            failure=None if result.first_failure is None else _fit_failure(result.first_failure),
            standings=tuple(map(_fit_standing, result.standings[:MOST_STANDINGS])),
            is_clear=is_clear and not supervisor.state.alive,
        )
        orders = company.settle(supervisor, account, lambda: not self._tether.sweep(), self._timeout_at)
        result = self._add_other_workers(result, number)
        if orders.stage != messages.LEAVE and orders.verdict is not None:  # another attempt
            self._announce(supervisor, self._judge(result, orders.verdict), orders)
            orders = company.await_start(supervisor, self._timeout_at)
        if orders.stage == messages.START:
            assert self._setting.replan is not None
            plan = self._setting.replan(orders, company.rank_in(orders))
            return Following(result, plan, orders.attempt, orders.restarts)
        assert orders.verdict is not None
        return Following(self._judge(result, orders.verdict))

    def _announce(self, supervisor: Supervisor, result: RunResult, orders: messages.Orders) -> None:
        config = self._setting.config
        if config.min_nnodes and result.outcome in ("joined", "node-lost", "interrupted"):
            enough = f"{config.min_nnodes} node{'' if config.min_nnodes == 1 else 's'} or more"
            supervisor.pump.say(f"ddplaunch: {result.reason}: all workers start again, on {enough}\n")
            return
        announce_restart(supervisor, result, orders.restarts, config.max_restarts, orders.pause_seconds)

    def _judge(self, result: RunResult, verdict: Verdict) -> RunResult:
        return result._replace(
            outcome=verdict.outcome,
            exit_code=verdict.exit_code,
            reason="; ".join(map(_in_one_line, verdict.problems)) or verdict.reason,
            first_failure=verdict.failure,
            standings=verdict.standings,
            hint=verdict.hint or (verdict.problems[0].hint if verdict.problems else ""),
            seconds=time.time() - self._setting.started_at,
        )

    def _add_other_workers(self, result: RunResult, number: int) -> RunResult:
        """Node 0 has heard from all of them."""
        last = result.attempts[-1]
        workers = {worker.rank: worker for worker in (*self._company.other_workers(number), *last.workers)}
        last = last._replace(workers=tuple(workers[rank] for rank in sorted(workers)))
        return result._replace(attempts=(*result.attempts[:-1], last))


def _in_one_line(problem: Problem) -> str:
    return f"{problem.what} ({problem.cause})" if problem.cause else problem.what


def _fit_failure(failure: Failure) -> Failure:
    tail = tuple(line[:LONGEST_LINE] for line in failure.tail[-MOST_LINES:])
    error_file = failure.error_file
    if len(str(error_file)) > LARGEST_ERROR_FILE or not is_portable(error_file):
        error_file = None
    return failure._replace(tail=tail, error_file=error_file)


def _fit_standing(standing: Standing) -> Standing:
    return standing._replace(stack=standing.stack[:MOST_FRAMES])
