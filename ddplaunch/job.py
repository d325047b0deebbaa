"""A run from its first attempt to its last: start, watch, conclude, start again or report."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from ddplaunch.config.resolve import LaunchConfig
from ddplaunch.errors import EXIT_PREFLIGHT, LaunchError, Problem, render_problem
from ddplaunch.output.files import open_run_directory, remove_run_directory, write_summary
from ddplaunch.plan.environment import marks_of
from ddplaunch.plan.model import LaunchPlan
from ddplaunch.record import TYPE_CHECKING, Record
from ddplaunch.supervise.attempt import AttemptPlace, spawn_all, watch
from ddplaunch.supervise.signals import SignalPipe
from ddplaunch.supervise.spawn import Starter, Worker
from ddplaunch.supervise.tether import Tether

if TYPE_CHECKING:
    from ddplaunch.fate import Alone
    from ddplaunch.nodes.company import Company
    from ddplaunch.nodes.lobby import Lobby
    from ddplaunch.nodes.messages import Orders
    from ddplaunch.nodes.together import Together
    from ddplaunch.output.console import Console
    from ddplaunch.output.logs import LogBook
    from ddplaunch.report.model import AttemptRecord, RunResult
    from ddplaunch.supervise.loop import Supervisor

FLUSH_SECONDS = 1.5  # for a reader that is slow to take our last words
TELL_SECONDS = 10.0  # beyond the grace: for the other nodes to stop when a worker could not be started


class Setting(Record):
    """What a run begins with, beside its plan."""

    config: LaunchConfig
    environ: Mapping[str, str]
    master_port: int
    directory: str  # for files that nobody asked to keep
    started_at: float
    starter: Starter  # of the workers
    first_attempt: int = 0  # of this launcher: a node that comes back begins later
    first_restarts: int = 0
    lobby: "Lobby | None" = None  # of a run of many nodes
    replan: "Callable[[Orders, int], LaunchPlan] | None" = None  # once the nodes have agreed


class Job:
    """Holds what all attempts share; what supervision needs is imported while the workers boot."""

    def __init__(self, setting: Setting, plan: LaunchPlan, signals: SignalPipe) -> None:
        self._setting, self._plan, self._signals = setting, plan, signals
        self._config = config = setting.config
        self._company: Company | None = None if setting.lobby is None else setting.lobby.company
        begun_at = time.monotonic() - setting.starter.spent_seconds
        self._timeout_at = None if config.timeout is None else begun_at + config.timeout
        self._attempts: tuple[AttemptRecord, ...] = ()
        self._number, self._restarts = setting.first_attempt, setting.first_restarts
        self._console: Console | None = None
        self._logs: LogBook | None = None  # of the present attempt
        self._oom_kills: int | None = None
        self._result: RunResult | None = None  # of the last attempt

    def run(self) -> int:
        """Attempt after attempt, until one succeeds or nothing more may be tried; then the exit code."""
        has_directory = open_run_directory(self._setting.directory)
        self._error_directory = self._setting.directory if has_directory else None
        try:
            self._tether = Tether(marks_of(self._plan), self._setting.directory, self._setting.starter)
        except OSError as error:
            remove_run_directory(self._setting.directory)
            reason = (error.strerror or str(error)).lower()
            raise LaunchError(
                Problem("cannot watch over workers", reason, exit_code=EXIT_PREFLIGHT)
            ) from error
        try:
            while (code := self._run_attempt()) is None:
                pass
            return code
        except BaseException:  # a worker cannot be started, or we are wrong: nobody is left behind
            self._tether.sweep()
            raise
        finally:
            self._tether.release()
            remove_run_directory(self._setting.directory)

    def save_summary_again(self) -> None:
        """Where nodes share a directory, node 0's summary is the last: it knows the workers of all."""
        if self._config.summary_json is not None and self._result is not None and self._plan.node_rank == 0:
            save_summary(self._config.summary_json, self._result)

    def _run_attempt(self) -> int | None:
        """The exit code, or None: there is another attempt to make."""
        requeued = self._exported_number - self._number
        place = AttemptPlace(
            self._exported_number,
            self._restarts + requeued,
            self._setting.master_port,
            self._error_directory,
        )
        begun_at = time.monotonic()
        if self._company is not None:
            self._company.begin(self._number)
        try:
            workers = spawn_all(self._plan, self._setting.environ, place, self._tether)
        except LaunchError as failure:
            result = self._result
            if self._setting.lobby is not None:  # to the others, this is what the run ends with
                self._setting.lobby.tell_problems(failure.problems, self._config.grace + TELL_SECONDS)
                code = failure.exit_code
                result = None if result is None else result._replace(outcome="preflight", exit_code=code)
            if result is None:
                raise
            if failure.outcome:  # interrupted, or out of time
                result = result._replace(outcome=failure.outcome, exit_code=failure.exit_code)
            return self._give_up(failure, result)
        supervisor = self._supervise(workers, begun_at)
        is_clear = watch(supervisor, self._tether)
        result = self._conclude(supervisor, place)
        following = self._fate().follow(supervisor, result, is_clear)
        self._result, goes_on = following.result, following.plan is not None
        self._attempts = self._result.attempts
        if following.plan is None:
            self._report(supervisor, self._result)
        else:
            self._plan, self._number, self._restarts = following.plan, following.attempt, following.restarts
        supervisor.close()
        self._tether.untie()
        return None if goes_on else self._result.exit_code

    def _fate(self) -> "Alone | Together":
        """Who decides what follows an attempt."""
        if self._company is None:
            from ddplaunch.fate import Alone

            return Alone(self._setting, self._plan, self._number, self._timeout_at)
        from ddplaunch.nodes.together import Together

        return Together(self._setting, self._company, self._tether, self._timeout_at)

    @property
    def _exported_number(self) -> int:
        """A job that was queued again goes on counting where it was."""
        allocation = self._config.allocation
        return self._number + (0 if allocation is None else allocation.first_attempt)

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
        from ddplaunch.output.pump import Pump
        from ddplaunch.supervise.loop import Supervisor
        from ddplaunch.supervise.processes import probe_oom_kills
        from ddplaunch.supervise.state import begin

        gc.freeze()  # modules and the plan stay: nobody needs to look at them again
        gc.enable()  # off since the program began; from here on it may run for weeks
        console = self._console = self._console or open_console(self._setting.environ)
        self._oom_kills = probe_oom_kills()
        ranks = frozenset(worker.spec.rank for worker in workers)
        config, plan, company = self._config, self._plan, self._company
        logs = self._logs = self._open_logs()
        is_shared = company is not None
        state = begin(ranks, begun_at, config.grace, config.stall_timeout, self._timeout_at, is_shared)
        return Supervisor(
            workers,
            state,
            self._signals,
            lambda selector: Pump(selector, console, plan, config.prefix, logs),
            self._tether,
            config.signal_scope,
            _import_the_end,
            company,
        )

    def _open_logs(self) -> "LogBook | None":
        """The files of this attempt, if any are kept."""
        directory, streams = self._plan.log_directory, self._config.streams
        if directory is None:
            return None
        if self._plan.splits_logs and streams is not None:
            from ddplaunch.output.split import SplitLogBook

            return SplitLogBook(directory, self._exported_number, streams.filters)
        from ddplaunch.output.logs import LogBook

        return LogBook(directory, self._exported_number, self._config.log_max_bytes)

    def _conclude(self, supervisor: "Supervisor", place: AttemptPlace) -> "RunResult":
        """How it went, with the last words of whoever failed first, or of everybody who stalled."""
        from ddplaunch.output.files import read_error_files
        from ddplaunch.plan.environment import error_file
        from ddplaunch.report import collect
        from ddplaunch.supervise.processes import probe_oom_kills

        state, ranks = supervisor.state, tuple(supervisor.workers)
        started = [collect.Started(w.spec, w.pid, w.started_at) for w in supervisor.workers.values()]
        attempt = collect.collect_attempt(self._plan, state, started, place.number, time.monotonic())
        self._attempts = (*self._attempts, attempt)
        files = {rank: error_file(self._setting.directory, place.number, rank) for rank in ranks}
        if self._logs is not None:
            for worker in supervisor.workers.values():
                self._logs.keep_error(worker.spec, files[worker.spec.rank])
        errors = read_error_files(files)
        rank = collect.failed_rank(state, attempt, supervisor.first_words, errors)
        failure = None
        if rank is not None:
            failure = collect.collect_failure(
                state,
                attempt,
                rank,
                {each: supervisor.pump.last_lines(each) for each in ranks},
                errors[rank].content if rank in errors else None,
                (probe_oom_kills() or 0) - (self._oom_kills or 0),
            )
        # Whoever had left before a stall stands nowhere.
        stderr = {rank: supervisor.pump.last_lines(rank).stderr for rank in state.stopped}
        started_at = self._setting.started_at
        seconds = time.time() - started_at
        return collect.collect_result(self._plan, state, self._attempts, failure, stderr, started_at, seconds)

    def _report(self, supervisor: "Supervisor", result: "RunResult") -> None:
        """The summary file, the workers' output, and then our last block."""
        if self._config.summary_json is not None:
            supervisor.pump.say(save_summary(self._config.summary_json, result))
        outer = self._setting.environ.get("TORCHELASTIC_ERROR_FILE")
        if outer and result.first_failure is not None:  # whoever started us looks there, as under torchrun
            from ddplaunch.report.summary import render_error

            with suppress(OSError):
                write_summary(outer, render_error(result, result.first_failure))
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
    import ddplaunch.fate
    import ddplaunch.report.collect
    import ddplaunch.report.summary
    import ddplaunch.report.text
    import ddplaunch.supervise.sweep  # noqa: F401
