"""Ranks that wait for each other in torch's store, where everybody can see who is missing and who failed.

The number of keys does not grow: each says how often something has happened.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ddplaunch.words import describe_ranks, describe_seconds

SHORTEST_PAUSE, LONGEST_PAUSE = 0.0005, 0.02
CROWD = 64  # ranks; more of them ask less often
# Who hears that another rank has failed leaves it the time to end first: a launcher then ends us.
POLITE_SECONDS = 5.0
LOOK_SECONDS = 0.5
LEAVE_SECONDS = 10.0  # for the others to have seen that all are there


class PeerFailedError(RuntimeError):
    """Another rank has failed: there is nobody to wait for."""


class BarrierTimeoutError(TimeoutError):
    """Some ranks did not come; `missing` says which."""

    def __init__(self, message: str, missing: tuple[int, ...]) -> None:
        super().__init__(message)
        self.missing = missing

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.missing)


class Meeting:
    """Waiting is asking again and again: so that signals are handled, and a failure is heard, meanwhile."""

    def __init__(self, store: Any, rank: int, size: int, is_watched: bool) -> None:
        self._store, self._rank, self._size = store, rank, size
        self._is_watched = is_watched
        self.is_asked_to_stop: Callable[[], bool] = lambda: False
        self._counts: dict[str, int] = {}
        self._longest_pause = LONGEST_PAUSE * max(1.0, size / CROWD)

    def gather(self, name: str, timeout: float | None) -> None:
        """Until every rank has called it as often as this one has."""
        number = self._count(name)
        self._store.set(f"{name}/{self._rank}", str(number))
        self._store.add(f"{name}/all", 1)
        began_at = time.monotonic()
        if self._await(lambda: self._store.add(f"{name}/all", 0) >= number * self._size, timeout):
            return
        missing = tuple(rank for rank in range(self._size) if self._read(f"{name}/{rank}")[0] < number)
        waited = describe_seconds(time.monotonic() - began_at)
        if self._rank == 0:  # the store goes with it: the others want to look, too
            time.sleep(LOOK_SECONDS)
        raise BarrierTimeoutError(
            f"{describe_ranks(missing)} did not come to the {name} within {waited}", missing
        )

    def exchange(self, name: str, word: str) -> list[str]:
        """What every rank says, by rank."""
        self._store.set(f"{name}/{self._rank}", word)
        return [str(self._store.get(f"{name}/{rank}").decode()) for rank in range(self._size)]

    def claim(self, name: str, number: int) -> bool:
        """Whether this rank is the first that could go first that time: there may be several."""
        before = str(self._store.get(name).decode()) if self._store.check([name]) else ""
        if int(before.partition(":")[0] or 0) >= number:
            return False
        claim = f"{number}:{self._rank}"
        return bool(self._store.compare_set(name, before, claim).decode() == claim)

    def take_turns(self, name: str, may_be_first: bool) -> "Turn":
        return Turn(self, name, self._count(name), may_be_first)

    def leave(self, timeout: float) -> None:
        """All ranks end here. Rank 0 hosts the store, and is the last to go."""
        self.gather("end of process_group()", timeout)
        self._store.add("left", 1)
        until = time.monotonic() + LEAVE_SECONDS
        while self._rank == 0 and self._store.add("left", 0) < self._size and time.monotonic() < until:
            time.sleep(SHORTEST_PAUSE)

    def tell_failure(self, error: BaseException) -> None:
        """Nobody should wait for this rank any more."""
        with suppress(Exception):  # where the store is gone, the others know
            is_well = isinstance(error, SystemExit) and not error.code
            verb = "left early" if is_well else "failed"
            self._store.set("failed", f"rank {self._rank} {verb}: {type(error).__name__}: {error}")

    def say(self, name: str, number: int, text: str) -> None:
        self._store.set(name, f"{number}:{text}")

    def hear(self, name: str, number: int) -> None:
        """Until the first has said how that time went; whoever is further on by now went well then."""
        self._await(lambda: self._read(name)[0] >= number, None)
        said, text = self._read(name)
        if said == number and text:
            raise self._give_up(text)

    def _count(self, name: str) -> int:
        self._counts[name] = self._counts.get(name, 0) + 1
        return self._counts[name]

    def _await(self, is_there: Callable[[], bool], timeout: float | None) -> bool:
        until = None if timeout is None else time.monotonic() + timeout
        pause = SHORTEST_PAUSE
        while not self._ask(is_there):
            failure = self._ask(lambda: self._read("failed", is_text=True)[1])
            if failure and not self._ask(is_there):  # who leaves right after has come before
                raise self._give_up(str(failure))
            if until is not None and time.monotonic() >= until:
                return False
            time.sleep(pause)
            pause = min(1.5 * pause, self._longest_pause)
        return True

    def _read(self, key: str, is_text: bool = False) -> tuple[int, str]:
        """`3:text`, or `3`, or just text; nothing was said 0 times."""
        if not self._store.check([key]):
            return 0, ""
        said = str(self._store.get(key).decode())
        if is_text:
            return 1, said
        number, _, text = said.partition(":")
        return int(number), text

    def _ask(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except RuntimeError as error:  # its host is gone
            reason = str(error).partition("\n")[0]
            raise self._give_up(f"the store on rank 0 is gone: {reason}") from None

    def _give_up(self, reason: str) -> PeerFailedError:
        until = time.monotonic() + (POLITE_SECONDS if self._is_watched else 0.0)
        while time.monotonic() < until and not self.is_asked_to_stop():
            time.sleep(LONGEST_PAUSE)
        return PeerFailedError(reason)


class Turn:
    """One rank goes first, of those that may; the others hear how that went."""

    def __init__(self, meeting: Meeting, name: str, number: int, may_be_first: bool) -> None:
        self._meeting, self._name, self._number = meeting, name, number
        self._is_first = may_be_first

    def __enter__(self) -> None:
        # torchrun's --virtual-local-rank makes local rank 0 of everybody.
        self._is_first = self._is_first and self._meeting.claim(f"{self._name}/first", self._number)
        if not self._is_first:
            self._meeting.hear(self._name, self._number)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._is_first:
            failure = "" if error is None else f"the first rank failed: {type(error).__name__}: {error}"
            self._meeting.say(self._name, self._number, failure)
