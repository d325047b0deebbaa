"""A run from its first attempt to its last: start, watch, conclude, start again or report."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress

from ddplaunch.config.resolve import LaunchConfig
from ddplaunch.errors import LaunchError, render_problem
from ddplaunch.output.files import open_run_directory, remove_run_directory, write_summary
from ddplaunch.plan.model import LaunchPlan
from ddplaunch.record import TYPE_CHECKING
from ddplaunch.supervise.attempt import AttemptPlace, spawn_all, watch
from ddplaunch.supervise.signals import SignalPipe
from ddplaunch.supervise.spawn import Worker
from ddplaunch.supervise.tether import Tether

if TYPE_CHECKING:
    from ddplaunch.output.console import Console
    from ddplaunch.report.model import AttemptRecord, RunResult
    from ddplaunch.supervise.events import Cause
    from ddplaunch.supervise.loop import Supervisor

FLUSH_SECONDS = 1.5  # for a reader that is slow to take our last words


class Job:
    """Holds what all attempts share; what supervision needs is imported while the workers boot."""

    def __init__(
        self,
        config: LaunchConfig,
        plan: LaunchPlan,
        environ: Mapping[str, str],
        master_port: int,
        directory: str,
        started_at: float,
    ) -> None:
        self._config, self._plan, self._environ = config, plan, environ
        self._master_port, self._directory = master_port, directory
        self._started_at = started_at
        self._timeout_at = None if config.timeout is None else time.monotonic() + config.timeout
        self._attempts: tuple[AttemptRecord, ...] = ()
        self._console: Console | None = None
        self._oom_kills: int | None = None
        self._result: RunResult | None = None  # of the last attempt

    def run(self) -> int:
        """Attempt after attempt, until one succeeds or nothing more may be tried; then the exit code."""
        self._signals = SignalPipe()  # before the first worker: none can be left behind by a signal
        has_directory = open_run_directory(self._directory)
        self._error_directory = self._directory if has_directory else None
        self._tether = Tether(self._plan.run_id, self._directory)
        try:
            while (code := self._run_attempt()) is None:
                pass
            return code
        except BaseException:  # a worker cannot be started, or we are wrong: nobody is left behind
            self._tether.sweep()
            raise
        finally:
            self._tether.release()
            remove_run_directory(self._directory)
            self._signals.close()

    def _run_attempt(self) -> int | None:
        """The exit code, or None: there is another attempt to make."""
        place = AttemptPlace(len(self._attempts), self._master_port, self._error_directory)
        begun_at = time.monotonic()
        try:
            workers = spawn_all(self._plan, self._environ, place, self._tether)
        except LaunchError as failure:
            if self._result is None:
                raise
            return self._give_up(failure, self._result)
        supervisor = self._supervise(workers, begun_at)
        is_clear = watch(supervisor, self._tether)
        self._result = self._conclude(supervisor, place)
        goes_on = self._goes_on(supervisor, self._result, begun_at, is_clear)
        if not goes_on:
            self._report(supervisor, self._result)
        supervisor.close()
        self._tether.untie()
        return None if goes_on else self._result.exit_code

    def _goes_on(
        self, supervisor: "Supervisor", result: "RunResult", begun_at: float, is_clear: bool
    ) -> bool:
        """Whether there is another attempt. What ends the run instead becomes its result."""
        from ddplaunch.report.outcome import judge
        from ddplaunch.supervise.restart import RestartPolicy, find_obstacle, plan_restart

        state, config = supervisor.state, self._config
        policy = RestartPolicy(config.max_restarts, config.min_uptime, config.restart_backoff)
        pause = plan_restart(policy, state.cause, len(self._attempts) - 1)
        if pause is None or state.cause is None:
            return False
        obstacle = find_obstacle(policy, state.cause.at - begun_at, is_clear and not state.alive)
        if obstacle:
            supervisor.pump.say(f"ddplaunch: note: no restart: {obstacle}\n")
            return False
        end = state.interrupted or self._pause(supervisor, result, pause)
        if end is None:
            return True
        name, code, reason = judge(state._replace(cause=end))
        seconds = time.time() - self._started_at
        self._result = result._replace(outcome=name, exit_code=code, reason=reason, seconds=seconds)
        return False

    def _give_up(self, failure: LaunchError, result: "RunResult") -> int:
        """The next attempt could not be started: the one before was the last."""
        from ddplaunch.report.text import render_report

        self._tether.sweep()
        problems = "".join(render_problem(problem) + "\n" for problem in failure.problems)
        result = result._replace(reason=f"{result.reason}; restart failed: {failure}")
        if self._config.summary_json is not None:
            problems += save_summary(self._config.summary_json, result)
        with suppress(OSError):
            os.write(2, f"{problems}{render_report(result)}\n".encode("utf-8", "backslashreplace"))
        return result.exit_code

    def _supervise(self, workers: list[Worker], begun_at: float) -> "Supervisor":
        import gc

        from ddplaunch.output.console import open_console
        from ddplaunch.output.logs import LogBook
        from ddplaunch.output.pump import Pump
        from ddplaunch.supervise.loop import Supervisor
        from ddplaunch.supervise.processes import probe_oom_kills
        from ddplaunch.supervise.state import begin

        gc.enable()  # off since the program began; from here on it may run for weeks
        console = self._console = self._console or open_console(self._environ)
        self._oom_kills = probe_oom_kills()
        ranks = frozenset(worker.spec.rank for worker in workers)
        config, plan = self._config, self._plan
        logs = None
        if plan.log_directory is not None:
            logs = LogBook(plan.log_directory, len(self._attempts), config.log_max_bytes)
        state = begin(ranks, begun_at, config.grace, config.stall_timeout, self._timeout_at)
        return Supervisor(
            workers,
            state,
            self._signals,
            lambda selector: Pump(selector, console, plan, config.prefix, logs),
            self._tether,
            config.signal_scope,
            _import_the_end,
        )

    def _conclude(self, supervisor: "Supervisor", place: AttemptPlace) -> "RunResult":
        """How it went, with the last words of whoever failed first, or of everybody who stalled."""
        from ddplaunch.output.files import read_error_file
        from ddplaunch.plan.environment import error_file
        from ddplaunch.report import collect
        from ddplaunch.supervise.processes import probe_oom_kills

        state = supervisor.state
        started = [collect.Started(w.spec, w.process.pid, w.started_at) for w in supervisor.workers.values()]
        attempt = collect.collect_attempt(self._plan, state, started, place.number, time.monotonic())
        self._attempts = (*self._attempts[: place.number], attempt)
        rank = collect.failed_rank(state)
        failure = None
        if rank is not None:
            failure = collect.collect_failure(
                state,
                attempt,
                rank,
                {each: supervisor.pump.last_lines(each) for each in supervisor.workers},
                read_error_file(error_file(self._directory, place.number, rank)),
                (probe_oom_kills() or 0) - (self._oom_kills or 0),
            )
        # Whoever had left before a stall stands nowhere.
        stderr = {rank: supervisor.pump.last_lines(rank).stderr for rank in state.stopped}
        seconds = time.time() - self._started_at
        return collect.collect_result(
            self._plan, state, self._attempts, failure, stderr, self._started_at, seconds
        )

    def _pause(self, supervisor: "Supervisor", result: "RunResult", seconds: float) -> "Cause | None":
        """Tell what happened and wait for the next attempt; something may end the run instead."""
        from ddplaunch.report.text import render_report
        from ddplaunch.supervise.events import TimedOut
        from ddplaunch.words import describe_restart

        number = len(self._attempts)
        supervisor.pump.say_report(render_report(result, supervisor.pump.width))
        supervisor.pump.say(f"ddplaunch: {describe_restart(number, self._config.max_restarts, seconds)}\n")
        now = time.monotonic()
        ends = (now + seconds, self._timeout_at if self._timeout_at is not None else float("inf"))
        received = supervisor.rest(min(ends))
        if received is None and ends[1] <= ends[0]:
            return TimedOut(time.monotonic())
        return received

    def _report(self, supervisor: "Supervisor", result: "RunResult") -> None:
        """The summary file, the workers' output, and then our last block."""
        if self._config.summary_json is not None:
            complaint = save_summary(self._config.summary_json, result)
            supervisor.pump.say(complaint)
        if result.outcome == "success":
            supervisor.flush(deadline=None)
            return
        from ddplaunch.report.text import render_report

        deadline = time.monotonic() + FLUSH_SECONDS
        supervisor.flush(deadline)
        supervisor.pump.say_report(render_report(result, supervisor.pump.width))
        supervisor.flush(deadline)


def save_summary(path: str, result: "RunResult") -> str:
    """Write the summary file; what went wrong with that, as a line to print."""
    from ddplaunch.report.summary import render_summary

    try:
        write_summary(path, render_summary(result))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        return f"ddplaunch: note: cannot write the summary to {path}: {reason}\n"
    return ""


def _import_the_end() -> None:
    """Load what the end of a run needs while it is young, and all workers are up.

    An upgrade may replace our files in its course, and descriptors may have run out.
    """
    import ddplaunch.report.collect
    import ddplaunch.report.summary
    import ddplaunch.report.text
    import ddplaunch.supervise.sweep  # noqa: F401
