"""Listening to the other nodes of a run, in the loop that watches the workers of this one."""

import selectors
from collections.abc import Callable

from ddplaunch.record import TYPE_CHECKING
from ddplaunch.supervise.events import StopOrdered
from ddplaunch.supervise.state import State

if TYPE_CHECKING:
    from ddplaunch.nodes.company import Company


class Ear:
    """Deaf where a node is alone."""

    def __init__(
        self, selector: selectors.BaseSelector, company: "Company | None", say: Callable[[str], None]
    ) -> None:
        self._selector, self._company, self._say = selector, company, say
        self._fds: set[int] = set()

    def prick(self) -> float | None:
        """Listen where the channel listens now; when it wants to be asked even if nothing comes."""
        if self._company is None:
            return None
        wanted = set(self._company.fds)
        for fd in self._fds - wanted:
            self._selector.unregister(fd)
        for fd in wanted - self._fds:
            self._selector.register(fd, selectors.EVENT_READ, None)
        self._fds = wanted
        return self._company.deadline

    def hear(self) -> list[StopOrdered]:
        if self._company is None:
            return []
        orders = self._company.receive()
        for notice in self._company.take_notices():
            self._say(f"ddplaunch: {notice}\n")
        return orders

    def tell(self, state: State) -> None:
        if self._company is not None:
            self._company.update(state)
