"""What happens to a run of many nodes, seen from node 0, and what is done about it. [pure]"""

from ddplaunch.nodes.messages import Orders, Status
from ddplaunch.record import Record

# Node 0's own launcher is a member like every other; it has no connection.
LOCAL = b""

# --- events -----------------------------------------------------------------------------------------


class Heard(Record):
    """A message came over this connection."""

    peer: bytes
    status: Status
    at: float


class Misheard(Record):
    """Something came that is no message of this version."""

    peer: bytes
    version: int | None
    at: float


class Vanished(Record):
    """A connection is gone; the node at its end may come back with another one."""

    peer: bytes
    at: float


class TurnedAway(Record):
    """Somebody could not even shake hands: another token, or none, or no ddplaunch at all."""

    address: str
    at: float


class Elapsed(Record):
    at: float


Event = Heard | Misheard | Vanished | TurnedAway | Elapsed

# --- actions ----------------------------------------------------------------------------------------


class Send(Record):
    peer: bytes
    orders: Orders


class SendAll(Record):
    """To these connections, all the same."""

    peers: tuple[bytes, ...]
    orders: Orders


class Say(Record):
    """On node 0's screen."""

    text: str


Action = Send | SendAll | Say
