"""--preload, the launcher's part: a preloader that is there when workers are to be forked."""

import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from ddplaunch.config.resolve import LaunchConfig
from ddplaunch.errors import EXIT_PREFLIGHT, LaunchError, Problem
from ddplaunch.output.plain import say
from ddplaunch.plan.model import LaunchPlan
from ddplaunch.preload.running import Recipe, Running
from ddplaunch.preload.wire import encode_words, send_message
from ddplaunch.supervise.processes import adopt_orphans, has_children
from ddplaunch.supervise.signals import SignalPipe
from ddplaunch.supervise.spawn import Prepared, Start, Starter, is_terminal


class Preloader(Starter):
    """Forks the workers of every attempt; when it is needed and has gone, another one is started."""

    def __init__(self, recipe: Recipe, signals: SignalPipe | None, timeout: float | None) -> None:
        self.came_with_children = has_children()  # before there is one of ours
        self._recipe, self._signals, self._timeout = recipe, signals, timeout
        self._running: Running | None = None
        if not adopt_orphans():
            cause = "workers are forked elsewhere and handed to the launcher, which only Linux can do"
            raise LaunchError(self._problem("it does not work on this system", cause))
        began_at = time.monotonic()
        self._ensure()
        self.spent_seconds = time.monotonic() - began_at

    @property
    def pid(self) -> int | None:  # type: ignore[override]
        """None when it has died: by asking, it is reaped."""
        process = None if self._running is None else self._running.process
        return None if process is None or process.poll() is not None else process.pid

    @contextmanager
    def starting(self) -> Iterator[Start]:
        """When the block is over, the workers are children of the launcher, and begin."""
        running = self._ensure()
        ours, theirs = socket.socketpair()  # a new one for each attempt: nothing can be left in it
        try:
            with ours:
                with theirs:
                    running.tell({"begin": True}, [theirs.fileno()])
                yield lambda worker: _fork(running, ours, worker)
            running.hear(None, "waiting for the workers to be forked")
        except (EOFError, OSError) as error:
            cause = running.describe_end()  # before it is ended by us
            self.close()
            raise LaunchError(self._problem("the preloader cannot fork any more", cause)) from error
        except BaseException:  # the next attempt, if there is one, has another
            self.close()
            raise

    def close(self) -> None:
        if self._running is not None:
            self._running.close()
            self._running = None

    def _ensure(self) -> Running:
        if self._running is not None and self.pid is not None:
            return self._running
        self.close()
        try:
            self._running = Running(self._recipe, self._signals)
            self._await_imports(self._running)
        except OSError as error:
            self.close()
            reason = (error.strerror or str(error)).lower()
            raise LaunchError(self._problem("the preloader cannot be started", reason)) from error
        except BaseException:
            self.close()
            raise
        return self._running

    def _await_imports(self, running: Running) -> None:
        try:
            answer = running.hear(self._timeout, f"importing {', '.join(self._recipe.modules)}")
        except (EOFError, ConnectionError):
            cause = running.describe_end()
            raise LaunchError(self._problem("the preloader died while it imported", cause)) from None
        if "problem" in answer:
            raise LaunchError(self._problem(*answer["problem"]))
        if answer["daemons"]:
            say([f"threads of the preload that workers do not have: {', '.join(answer['daemons'])}"])

    def _problem(self, what: str, cause: str, hint: str = "") -> Problem:
        said = f"{self._recipe.said_by} {','.join(self._recipe.modules)}"
        return Problem(f"{said}: {what}", cause, hint, EXIT_PREFLIGHT)


@contextmanager
def open_preloader(
    config: LaunchConfig,
    plan: LaunchPlan,
    environ: Mapping[str, str],
    signals: SignalPipe | None,
    prints: bool = True,
) -> Iterator[Preloader]:
    """Ready to fork this node's workers, or a LaunchError that says why it never will be."""
    reads_terminal = any(spec.interactive for spec in plan.workers) and is_terminal(0)
    env = {**environ, **find_common([spec.env for spec in plan.workers])}
    source = config.sources["preload"]
    recipe = Recipe(config.preload, source, plan.workers[0].argv, env, not reads_terminal, prints)
    preloader = Preloader(recipe, signals, config.timeout)
    try:
        yield preloader
    finally:
        preloader.close()


def _fork(running: Running, channel: socket.socket, worker: Prepared) -> int:
    """OSError with the reason if it cannot be."""
    env, ends, spec = worker.env, worker.ends, worker.spec
    order = {
        "argv": encode_words(spec.argv),
        "env": dict(zip(encode_words(list(env)), encode_words(list(env.values())), strict=True)),
        "cpus": spec.cpus,
        "group": None if worker.leads_session else os.getpgrp(),
    }
    standard = [own if end is None else end for own, end in enumerate(ends[:3])]
    send_message(channel, order, [*standard, *([] if ends.kept is None else [ends.kept])])
    answer = running.hear(None, f"waiting for rank {spec.rank} to be forked", channel)
    if "pid" not in answer:
        raise OSError(answer["problem"])
    return int(answer["pid"])


def find_common(environments: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """What all of them say alike: OMP_NUM_THREADS counts while torch is imported."""
    first, *others = environments
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
