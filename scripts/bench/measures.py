"""What is measured, of whom, and what has been promised about it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from scripts.bench import gauges, streams
from scripts.bench.peers import (
    ACCELERATE,
    BASH,
    CAT,
    DDPLAUNCH,
    LAUNCH,
    MPIRUN,
    PRELOAD,
    SPAWN,
    TORCHRUN,
    Peer,
)

IDLE_SECONDS = 3.0

_LOOPS = (BASH, SPAWN)
_TORCH = (TORCHRUN, LAUNCH, ACCELERATE)
_ALL = (DDPLAUNCH, PRELOAD, *_TORCH, MPIRUN, *_LOOPS)


@dataclass(frozen=True)
class Promise:
    """`peer` takes at most (or, if more is better, at least) this, as a ratio to `base` or in the unit."""

    peer: str
    limit: float
    base: str = ""


@dataclass(frozen=True)
class Measure:
    name: str
    unit: str
    of: tuple[str, ...]
    read: Callable[[Peer], float]
    promises: tuple[Promise, ...] = ()
    more_is_better: bool = False
    rounds: int = 5
    slow_rounds: int = 3  # of those that need seconds for each
    digits: int = field(default=2)

    def rounds_of(self, name: str) -> int:
        return self.slow_rounds if name in _TORCH else self.rounds


def list_measures(scripts: Mapping[str, str]) -> list[Measure]:
    hello, hold, job, sleep = scripts["hello"], scripts["hold"], scripts["job"], scripts["sleep"]
    crash, again = scripts["crash"], scripts["restart"]

    def launch(workers: int, of: tuple[str, ...], limit: float | None, rounds: int) -> Measure:
        promises = () if limit is None else (Promise(DDPLAUNCH, limit, BASH),)
        read = lambda peer: gauges.seconds_to_up(peer, workers, hello)  # noqa: E731
        name = f"launch of {workers} trivial workers"
        return Measure(name, "s", of, read, promises, rounds=rounds, digits=3)

    def real(workers: int, promises: tuple[Promise, ...] = ()) -> Measure:
        read = lambda peer: gauges.seconds_to_up(peer, workers, job)  # noqa: E731
        return Measure(
            f"{workers} gloo workers to their first all_reduce", "s", _ALL, read, promises, rounds=3
        )

    def one_more(peer: Peer) -> float:
        """Of the best of three of each: a difference of single readings would be noise."""
        few, many = 8, 136
        least = [
            min(gauges.launcher_cpu_seconds(peer, count, hold) for _ in range(3)) for count in (few, many)
        ]
        return (least[1] - least[0]) / (many - few) * 1000

    return [
        launch(2, _ALL, None, 7),
        launch(8, _ALL, 1.7, 12),
        launch(64, _ALL, 1.25, 7),
        launch(512, (DDPLAUNCH, MPIRUN, *_LOOPS), 1.1, 3),
        Measure(
            "launcher's CPU for one more worker", "ms", (DDPLAUNCH, *_LOOPS), one_more,
            (Promise(DDPLAUNCH, 2.0, BASH),), rounds=2,
        ),
        real(2),
        real(4),
        real(8, (Promise(PRELOAD, 0.3, BASH), Promise(PRELOAD, 0.25, TORCHRUN))),
        Measure(
            "memory of a job of 8 gloo workers (PSS)", "MB", _ALL,
            lambda peer: gauges.job_pss_megabytes(peer, 8, job),
            (Promise(PRELOAD, 0.5, BASH),), rounds=1, slow_rounds=1, digits=0,
        ),
        Measure(
            "launcher's peak memory", "MB", (DDPLAUNCH, *_TORCH, MPIRUN),
            lambda peer: gauges.launcher_rss_megabytes(peer, 8, hold),
            (Promise(DDPLAUNCH, 20.0),), rounds=2, slow_rounds=1, digits=1,
        ),
        Measure(
            "a crash of 1 of 8 to the launcher's exit", "s", (DDPLAUNCH, PRELOAD, *_TORCH, MPIRUN),
            lambda peer: gauges.seconds_of_failure(peer, 8, crash),
            (Promise(DDPLAUNCH, 0.4, TORCHRUN),), rounds=3, digits=3,
        ),
        Measure(
            "Ctrl-C to the launcher's exit, 8 workers", "s", (DDPLAUNCH, PRELOAD, *_TORCH, MPIRUN),
            lambda peer: gauges.seconds_of_interrupt(peer, 8, sleep), digits=3,
        ),
        Measure(
            "a crash to the next all_reduce, 4 workers", "s", (DDPLAUNCH, PRELOAD, TORCHRUN, LAUNCH),
            lambda peer: gauges.seconds_to_restart(peer, 4, again),
            (Promise(PRELOAD, 0.3),), rounds=4,
        ),
        Measure(
            "idle launcher, wakeups", "/s", (DDPLAUNCH, PRELOAD, *_TORCH, MPIRUN),
            lambda peer: gauges.idle_wakeups(peer, 8, sleep, IDLE_SECONDS)[0],
            (Promise(DDPLAUNCH, 0.5),), rounds=1, slow_rounds=1, digits=1,
        ),
        Measure(
            "idle launcher, CPU", "%", (DDPLAUNCH, PRELOAD, *_TORCH, MPIRUN),
            lambda peer: gauges.idle_wakeups(peer, 8, sleep, IDLE_SECONDS)[1],
            rounds=1, slow_rounds=1, digits=3,
        ),
        Measure(
            "output of 4 workers", "MB/s", (DDPLAUNCH, PRELOAD, TORCHRUN, BASH, CAT),
            lambda peer: streams.megabytes_per_second(peer, scripts["blast"], with_logs=False),
            (Promise(DDPLAUNCH, 0.4, CAT),), more_is_better=True, rounds=3, digits=0,
        ),
        Measure(
            "output of 4 workers, and to files", "MB/s", (DDPLAUNCH, PRELOAD, TORCHRUN),
            lambda peer: streams.megabytes_per_second(peer, scripts["blast"], with_logs=True),
            (Promise(DDPLAUNCH, 2.2, TORCHRUN),), more_is_better=True, rounds=3, digits=0,
        ),
        Measure(
            "how late a line is (p99)", "ms", (DDPLAUNCH, PRELOAD, TORCHRUN),
            lambda peer: streams.late_milliseconds(peer, scripts["clock"]),
            (Promise(DDPLAUNCH, 5.0),), rounds=2, slow_rounds=1,
        ),
    ]  # fmt: skip
