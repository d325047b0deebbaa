"""Node 0's end of the control channel: it hears every node, decides for all, and tells them."""

import time

from ddplaunch.nodes import membership
from ddplaunch.nodes.channel import Router, Unlinked, Unshaken
from ddplaunch.nodes.events import (
    LOCAL,
    Action,
    Elapsed,
    Event,
    Heard,
    Misheard,
    Say,
    Send,
    TurnedAway,
    Vanished,
)
from ddplaunch.nodes.link import News, Notice
from ddplaunch.nodes.messages import Orders, Status, is_sane
from ddplaunch.nodes.roster import Phase, Rules, State, begin, orders_for
from ddplaunch.nodes.surplus import answer_waiting
from ddplaunch.nodes.wire import BadMessageError, decode, encode

# A connection that broke may take the library a moment to take note of everywhere.
LOOK_AGAIN_SECONDS = (0.05, 0.5)

MOST_WORDLESS = 10_000
NEVER = -(10**9)


class Hub:
    """The run's membership, fed by a socket, a clock and node 0 itself."""

    def __init__(self, rules: Rules, port: int, token: str, join_seconds: float) -> None:
        self._router = Router(port, token, rules.heartbeat_seconds)
        self._state = begin(rules, time.monotonic(), join_seconds)
        self._news: list[News] = []
        self._number = 0
        self._wordless: dict[str, int] = {}  # how often somebody hung up without a word, by address
        self._looks: list[float] = []  # when to look for broken connections

    @property
    def fds(self) -> tuple[int, ...]:
        return self._router.fds

    @property
    def deadline(self) -> float | None:
        """When receive() is wanted even if no descriptor says so."""
        if self._news or self._router.has_input:
            return 0.0
        times = [*self._looks, *([self._state.deadline] if self._state.deadline is not None else [])]
        return min(times, default=None)

    @property
    def waiting(self) -> str:
        return self._state.orders.waiting

    @property
    def is_over(self) -> bool:
        """Everybody who could be told has been told how the run ended."""
        return self._state.phase is Phase.OVER

    @property
    def round_trip(self) -> float:
        return 0.0

    @property
    def state(self) -> State:
        return self._state

    def tell(self, status: Status) -> None:
        """Node 0's own launcher speaks."""
        self._number += 1
        self._step(Heard(LOCAL, status._replace(number=self._number), time.monotonic()))

    def receive(self) -> list[News]:
        now = time.monotonic()
        for message in self._router.messages():
            event = _read(message.frames, now)
            if isinstance(event, Heard):
                self._wordless[message.address] = NEVER
            self._step(event)
        for news in self._router.news():
            if isinstance(news, Unlinked):
                self._looks = [now, *(now + later for later in LOOK_AGAIN_SECONDS)]
            elif isinstance(news, Unshaken) and self._is_stranger(news):
                self._step(TurnedAway(news.address, now))
        if self._looks and self._looks[0] <= now:
            self._looks = [at for at in self._looks if at > now]
            self._look_for_broken(now)
        if self._state.deadline is not None and self._state.deadline <= now:
            self._step(Elapsed(now))
        heard, self._news = self._news, []
        return heard

    def close(self) -> None:
        self._router.close()

    def _is_stranger(self, news: Unshaken) -> bool:
        """Who speaks otherwise may hang up before we hear it; but every scout of ours hangs up, too, once."""
        if news.is_refusal or not news.address or len(self._wordless) >= MOST_WORDLESS:
            return news.is_refusal
        self._wordless[news.address] = self._wordless.get(news.address, 0) + 1
        return self._wordless[news.address] == 2

    def _look_for_broken(self, now: float) -> None:
        """Only a message that cannot be delivered tells whose connection is gone; orders do no harm twice."""
        for member in tuple(self._state.members.values()):
            if member.peer == LOCAL or member.down_since is not None:
                continue
            if not self._router.send(member.peer, encode(orders_for(self._state, member))):
                self._step(Vanished(member.peer, now))
        for one in self._state.queue:
            if not self._router.send(one.peer, encode(answer_waiting(self._state))):
                self._step(Vanished(one.peer, now))

    def _step(self, event: Event) -> None:
        self._state, actions = membership.step(self._state, event)
        for action in actions:
            self._perform(action)

    def _perform(self, action: Action) -> None:
        match action:
            case Say(text=text):
                self._news.append(Notice(text))
            case Send(peer=peer, orders=orders):
                self._send((peer,), orders)
            case _:
                self._send(action.peers, action.orders)

    def _send(self, peers: tuple[bytes, ...], orders: Orders) -> None:
        data = encode(orders)
        for peer in peers:
            if peer == LOCAL:
                self._news.append(orders)
            else:
                self._router.send(peer, data)


def _read(frames: tuple[bytes, ...], now: float) -> Event:
    peer = frames[0]
    if len(frames) != 2:
        return Misheard(peer, None, now)
    try:
        status = decode(frames[1], Status)
    except BadMessageError as error:
        return Misheard(peer, error.version, now)
    return Heard(peer, status, now) if is_sane(status) else Misheard(peer, None, now)
