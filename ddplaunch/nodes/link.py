"""What a launcher hears from the rest of its run, whichever end of the channel it is at. [pure]"""

from ddplaunch.errors import Problem
from ddplaunch.nodes.messages import Orders
from ddplaunch.record import Record


class Notice(Record):
    """A line for the screen."""

    text: str


class NodeZeroLost(Record):
    """Nobody gives orders any more."""

    reason: str


class NoContact(Record):
    """Node 0 was never found."""

    problem: Problem


News = Orders | Notice | NodeZeroLost | NoContact
