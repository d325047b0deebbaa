"""Every other node's end of the control channel: it finds node 0, tells it, and hears its orders."""

import time

from ddplaunch.nodes import contact
from ddplaunch.nodes.channel import Dealer, Linked, Unlinked
from ddplaunch.nodes.contact import Call, Event, GiveUp, HangUp, Miss, SayAgain, Scouted, SendScout, Terms
from ddplaunch.nodes.link import News, NoContact, NodeZeroLost
from ddplaunch.nodes.messages import LATER, Orders, Status
from ddplaunch.nodes.scout import Scout
from ddplaunch.nodes.wire import BadMessageError, decode, encode

ASK_AGAIN_SECONDS = 0.02


class Spoke:
    """One connection, made again whenever it breaks; over every new one the whole status goes out."""

    def __init__(self, terms: Terms, token: str, join_seconds: float) -> None:
        self._terms, self._token = terms, token
        self._state = contact.begin(terms, time.monotonic(), join_seconds)
        self._scout: Scout | None = None
        self._dealer: Dealer | None = None
        self._status: Status | None = None
        self._ended_at = 0.0  # when what ends the attempt came up
        self._number = 0
        self._news: list[News] = []
        self.round_trip = 0.0  # the shortest so far
        self.round_trips = 0
        self._asked_at: float | None = None
        self._ask_at: float | None = None  # when to try again what could not be said

    @property
    def fds(self) -> tuple[int, ...]:
        scout = () if self._scout is None else (self._scout.fd,)
        return scout if self._dealer is None else (*self._dealer.fds, *scout)

    @property
    def deadline(self) -> float | None:
        if self._news or (self._dealer is not None and self._dealer.has_input):
            return 0.0
        times = [at for at in (self._state.deadline, self._ask_at) if at is not None]
        return min(times, default=None)

    @property
    def waiting(self) -> str:
        if self._state.phase in (contact.Phase.LOOKING, contact.Phase.CALLING):
            return contact.describe_waiting(self._state)
        return ""

    @property
    def is_over(self) -> bool:
        """Node 0 has answered to the last we said, or there is nobody to answer."""
        return self._asked_at is None or self._state.phase is not contact.Phase.TALKING

    @property
    def has_contact(self) -> bool:
        return self._state.is_understood

    def tell(self, status: Status) -> None:
        before, self._status = self._status, status
        if status.ending is not None and (before is None or before.ending != status.ending):
            self._ended_at = time.monotonic() - status.ending.age
        self.ask()

    def receive(self) -> list[News]:
        now = time.monotonic()
        if self._scout is not None and _is_readable(self._scout.fd):
            found, self._scout = self._scout.read(), None
            self._step(Scouted(found.reached, found.error, found.is_refused, now))
        if self._dealer is not None:
            self._listen(self._dealer, now)
        if self._ask_at is not None and self._ask_at <= now:
            self.ask()
        if self._state.deadline is not None and self._state.deadline <= now:
            self._step(contact.Elapsed(now))
        news, self._news = self._news, []
        return news

    def close(self) -> None:
        if self._scout is not None:
            self._scout.end()
        if self._dealer is not None:
            self._dealer.close()

    def _listen(self, dealer: Dealer, now: float) -> None:
        for message in dealer.messages():
            try:
                orders = decode(message.frames[-1], Orders)
            except BadMessageError:
                continue
            if orders.stage == LATER:
                self._step(contact.Postponed(now))
                return
            self._measure(now)
            self._step(contact.Understood(now))
            self._news.append(orders)
        for news in dealer.news():
            if isinstance(news, Linked):
                self._step(contact.Shaken(now))
            elif isinstance(news, Unlinked):
                self._step(contact.Broken(now))
            else:
                self._step(contact.NotShaken(news.speaks_otherwise, news.is_silence, now))

    def _measure(self, now: float) -> None:
        """Node 0 answers every status at once."""
        if self._asked_at is not None:
            took = now - self._asked_at
            self.round_trip = min(took, self.round_trip) if self.round_trips else took
            self.round_trips += 1
            self._asked_at = None

    def _step(self, event: Event) -> None:
        self._state, actions = contact.step(self._state, event)
        for action in actions:
            match action:
                case SendScout():
                    if self._scout is None:
                        self._scout = Scout(self._terms.host, self._terms.port, connects=True)
                case Call(address=address):
                    if self._dealer is not None:
                        self._dealer.close()
                    heartbeat = self._terms.heartbeat_seconds
                    self._dealer = Dealer(address, self._terms.port, self._token, heartbeat)
                case HangUp():
                    if self._dealer is not None:
                        self._dealer.close()
                    self._dealer = None
                case SayAgain():
                    self.ask()
                case GiveUp(problem=problem):
                    self._news.append(NoContact(problem))
                case Miss(reason=reason):
                    self._news.append(NodeZeroLost(reason))

    def ask(self) -> None:
        """Say everything once more; node 0 answers. Ages grow while a message waits for a connection."""
        if self._dealer is None or self._status is None:
            return
        now = time.monotonic()
        status, self._number = self._status, self._number + 1
        if status.ending is not None:
            status = status._replace(ending=status.ending._replace(age=now - self._ended_at))
        self._asked_at = now
        is_said = self._dealer.send(encode(status._replace(number=self._number)))
        is_talking = self._state.phase is contact.Phase.TALKING
        self._ask_at = now + ASK_AGAIN_SECONDS if is_talking and not is_said else None


def _is_readable(fd: int) -> bool:
    import select

    ask = select.poll()
    ask.register(fd, select.POLLIN)
    return bool(ask.poll(0))
