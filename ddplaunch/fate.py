"""What follows an attempt on a single node: another one, or the end."""

import time

from ddplaunch.job import Setting
from ddplaunch.plan.model import LaunchPlan
from ddplaunch.record import Record
from ddplaunch.report.model import RunResult
from ddplaunch.report.outcome import judge
from ddplaunch.report.text import render_report
from ddplaunch.supervise.events import Cause, TimedOut
from ddplaunch.supervise.loop import Supervisor
from ddplaunch.supervise.restart import RestartPolicy, find_obstacle, is_mishap, plan_restart
from ddplaunch.words import describe_restart


class Following(Record):
    """The result so far, and the plan of the next attempt; None: the result is final."""

    result: RunResult
    plan: LaunchPlan | None = None
    attempt: int = 0
    restarts: int = 0  # of its attempts, those that followed a failure


class Alone:
    """Nobody else has a say in it."""

    def __init__(self, setting: Setting, plan: LaunchPlan, attempt: int, timeout_at: float | None) -> None:
        self._setting, self._plan = setting, plan
        self._attempt, self._timeout_at = attempt, timeout_at

    def follow(self, supervisor: Supervisor, result: RunResult, is_clear: bool) -> Following:
        """What ends the run instead of another attempt becomes its result."""
        state, config = supervisor.state, self._setting.config
        policy = RestartPolicy(config.max_restarts, config.min_uptime, config.restart_backoff)
        pause = plan_restart(policy, is_mishap(state.cause), self._attempt)
        if pause is None or state.cause is None:
            return Following(result)
        obstacle = find_obstacle(policy, state.cause.at - state.begun_at, is_clear and not state.alive)
        if obstacle:
            supervisor.pump.say(f"ddplaunch: note: no restart: {obstacle}\n")
            return Following(result)
        end = state.interrupted or self._pause(supervisor, result, pause)
        if end is None:
            return Following(result, self._plan, self._attempt + 1, self._attempt + 1)
        name, code, reason = judge(state._replace(cause=end))
        seconds = time.time() - self._setting.started_at
        return Following(result._replace(outcome=name, exit_code=code, reason=reason, seconds=seconds))

    def _pause(self, supervisor: Supervisor, result: RunResult, seconds: float) -> Cause | None:
        """Tell what happened and wait for the next attempt; something may end the run instead."""
        announce_restart(supervisor, result, self._attempt + 1, self._setting.config.max_restarts, seconds)
        now = time.monotonic()
        ends = (now + seconds, self._timeout_at if self._timeout_at is not None else float("inf"))
        received = supervisor.rest(min(ends))
        if received is None and ends[1] <= ends[0]:
            return TimedOut(time.monotonic())
        return received


def announce_restart(
    supervisor: Supervisor, result: RunResult, number: int, most: int, seconds: float
) -> None:
    supervisor.pump.say_report(render_report(result, supervisor.pump.width))
    supervisor.pump.say(f"ddplaunch: {describe_restart(number, most, seconds)}\n")
