"""Everything that keeps a run's processes from outliving it: lifeline, guardian, sweep."""

import os
import time
from collections.abc import Collection

from ddplaunch.record import TYPE_CHECKING
from ddplaunch.supervise.guardian import Guardian
from ddplaunch.supervise.lifeline import Lifeline
from ddplaunch.supervise.processes import adopt_orphans, has_children
from ddplaunch.supervise.spawn import Starter

if TYPE_CHECKING:
    from ddplaunch.supervise.canary import Canary
    from ddplaunch.supervise.census import ProcessFacts
    from ddplaunch.supervise.events import Work

MOST_GUARDIANS = 10  # somebody who kills that many means it
SWEEP_SECONDS = 1.0
HELPER_SECONDS = 0.5  # for helpers of a finished worker to notice that it is over


class Tether:
    """Opened before the first worker of a run, released when the launcher is about to leave."""

    def __init__(self, marks: tuple[str, ...], run_directory: str, starter: Starter) -> None:
        self._marks, self._run_directory = marks, run_directory
        self.starter = starter
        # Orphans of workers come to us, not to init: ours to find and to end. But not after
        # `something & exec ddplaunch ...`: they could be that something's.
        had_children = starter.came_with_children
        had_children = has_children() if had_children is None else had_children
        self._orphans_are_ours = not had_children and adopt_orphans()
        self.lifeline = Lifeline()
        self.guardian: Guardian | None = Guardian(marks, run_directory)
        self._guardians = 1
        self._canary: Canary | None = None

    def share_terminal(self) -> None:
        """A worker is in our own process group: from here on a terminal's signals are told from others."""
        from ddplaunch.supervise.canary import Canary

        self._canary = self._canary or Canary(self.lifeline)

    def is_from_terminal(self) -> bool:
        """Whether the signal that just came went to our whole process group."""
        if self._canary is None or not self._canary.is_hit():
            return False
        self._canary = None
        self.share_terminal()  # the next signal may come from elsewhere
        return True

    def replace_guardian(self) -> None:
        """The guardian has been killed: the next one takes its place."""
        assert self.guardian is not None
        self.guardian.forget()
        self._guardians += 1
        mended = self._guardians <= MOST_GUARDIANS
        self.guardian = Guardian(self._marks, self._run_directory) if mended else None

    def sample_work(self, workers: Collection[int]) -> "dict[int, Work]":
        """What the workers have done, and the orphans of theirs that came to us."""
        from ddplaunch.supervise.census import find_ours, sum_work
        from ddplaunch.supervise.sweep import probe_processes

        processes = probe_processes(self._marks)
        ours = find_ours(processes, self._launcher(), self._known(), self.starter.pid)
        orphans = [process.pid for process in ours if process.parent == os.getpid()]
        return sum_work(processes, {*workers, *orphans})

    def sweep(self) -> "list[ProcessFacts]":
        """End whatever the workers left behind, in any session; who cannot be ended is returned."""
        from ddplaunch.supervise.sweep import kill_ours

        deadline = time.monotonic() + SWEEP_SECONDS
        return kill_ours(self._marks, self._launcher(), self._known(), deadline, self.starter.pid)

    def find_helpers(self) -> "list[ProcessFacts]":
        """What still runs after every worker has succeeded."""
        from ddplaunch.supervise.census import find_ours
        from ddplaunch.supervise.sweep import await_leaving, probe_processes

        return await_leaving(
            lambda: find_ours(
                probe_processes(self._marks), self._launcher(), self._known(), self.starter.pid
            ),
            time.monotonic() + HELPER_SECONDS,
        )

    def untie(self) -> None:
        """An attempt is over."""
        if self._canary is not None:
            self._canary.release()
            self._canary = None
        self.lifeline.untie()

    def release(self) -> None:
        self.untie()
        self.lifeline.close()
        if self.guardian is not None:
            self.guardian.dismiss()
            self.guardian = None

    def _launcher(self) -> int | None:
        return os.getpid() if self._orphans_are_ours else None

    @property
    def own_children(self) -> set[int]:
        """Children of the launcher that are no workers."""
        return {
            one.pid
            for one in (self.guardian, self._canary, self.starter)
            if one is not None and one.pid is not None
        }

    def _known(self) -> set[int]:
        return {os.getpid(), *self.own_children}
