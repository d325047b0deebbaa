"""Which accelerators are visible, read as torch reads it, and which of them a worker gets. [pure]"""

from collections.abc import Mapping, Sequence

from ddplaunch.errors import EXIT_PREFLIGHT, Problem
from ddplaunch.record import Record

VARIABLE = "CUDA_VISIBLE_DEVICES"
MOST_CARDS = 1024


class Card(Record):
    """An accelerator of this machine, as its driver describes it."""

    number: int
    uuid: str = ""
    name: str = ""
    memory_bytes: int = 0
    used_bytes: int = 0
    users: tuple[tuple[int, int], ...] = ()  # (pid, bytes) of the processes on it
    pci: str = ""
    numa_node: int | None = None
    parts: tuple[str, ...] = ()  # UUIDs of its MIG instances


class Vendor(Record):
    """A kind of accelerator: its cards, and the one variable that narrows what workers see of them.

    Narrowing two variables of one vendor at once would number the second within the first.
    """

    noun: str
    variable: str
    cards: tuple[Card, ...]


class Visible(Record):
    """The visible cards in the order torch numbers them, and what is wrong with the list."""

    devices: tuple[str, ...]
    source: str
    problems: tuple[Problem, ...] = ()
    variable: str = VARIABLE
    cards: tuple[Card | None, ...] = ()  # of each device, where it is known
    is_listed: bool = True  # somebody named them; otherwise they are all that the machine has


def detect_visible(environ: Mapping[str, str], vendor: Vendor) -> Visible:
    """The cards workers will see. An unset variable shows every card; an empty one hides them all."""
    variable, cards = vendor.variable, vendor.cards
    listed = environ.get(variable)
    if listed is None:
        source = f"this machine ({variable} is not set)"
        return Visible(
            tuple(str(card.number) for card in cards), source, (), variable, cards, is_listed=False
        )
    source = f"{variable}={listed}"
    tokens = _parse_list(listed) if variable == VARIABLE else _parse_plain(listed)
    problems = []
    repeated = sorted({token for token in tokens if tokens.count(token) > 1})
    if repeated:
        problems.append(
            Problem(
                f"{source} names {', '.join(repeated)} twice",
                "CUDA then shows no card at all" if variable == VARIABLE else "",
                "name each card once",
                EXIT_PREFLIGHT,
            )
        )
    found = tuple(_find_card(token, cards) for token in tokens)
    if cards:  # else nobody knows which there are
        wrong = [token for token in tokens if len(_match(token, cards)) != 1]
        problems += [_describe_wrong(source, token, cards) for token in wrong]
    return Visible(tokens, source, tuple(problems), variable, found)


def choose(visible: Visible, positions: Sequence[int], source: str) -> Visible:
    """Some of the visible cards, by the numbers torch gives them."""
    absent = [position for position in positions if position >= len(visible.devices)]
    if absent:
        count = len(visible.devices)
        cause = f"{visible.source} shows {count or 'no'} {'card' if count == 1 else 'cards'}"
        cause += f", numbered 0 to {count - 1}" if count > 1 else ""
        what = f"{source}: there is no card {', '.join(map(str, absent))}"
        return visible._replace(problems=(*visible.problems, Problem(what, cause, exit_code=EXIT_PREFLIGHT)))
    return visible._replace(
        devices=tuple(visible.devices[position] for position in positions),
        cards=tuple(visible.cards[position] for position in positions) if visible.cards else (),
        source=source,
        is_listed=True,
    )


def _match(token: str, cards: Sequence[Card]) -> list[Card]:
    """The cards a token may mean: a number, a UUID, or the beginning of one."""
    if token.isdigit():
        return [card for card in cards if card.number == int(token)]
    exact = [card for card in cards if token in (card.uuid, *card.parts)]
    return exact or [
        card for card in cards if any(uuid.startswith(token) for uuid in (card.uuid, *card.parts))
    ]


def _find_card(token: str, cards: Sequence[Card]) -> Card | None:
    found = _match(token, cards)
    return found[0] if len(found) == 1 else None


def _describe_wrong(source: str, token: str, cards: Sequence[Card]) -> Problem:
    if _match(token, cards):
        return Problem(
            f"{source}: {token} is the beginning of several UUIDs",
            hint="write more of it",
            exit_code=EXIT_PREFLIGHT,
        )
    has = "card 0" if len(cards) == 1 else f"cards 0 to {len(cards) - 1}"
    if not token.isdigit():
        has = ", ".join(uuid for card in cards for uuid in (card.uuid, *card.parts))
    return Problem(
        f"{source}: card {token} does not exist", f"this machine has {has}", exit_code=EXIT_PREFLIGHT
    )


def _parse_list(listed: str) -> tuple[str, ...]:
    """torch's rules: UUIDs by prefix, else leading numbers; the first invalid entry ends the list."""
    for prefix in ("GPU-", "MIG-"):
        if listed.startswith(prefix):
            return _take_while_prefixed(listed.split(","), prefix)
    tokens = []
    for entry in listed.split(","):
        number = _leading_number(entry.strip())
        if number < 0:
            break
        tokens.append(str(number))
    return tuple(tokens)


def _parse_plain(listed: str) -> tuple[str, ...]:
    """Other vendors' lists: numbers, ranges (Ascend), tiles such as 0.1 (Intel), UUIDs (AMD)."""
    tokens: list[str] = []
    for entry in listed.replace(" ", "").split(","):
        first, dash, last = entry.partition("-")
        if dash and first.isdigit() and last.isdigit() and int(last) < MOST_CARDS:
            tokens += map(str, range(int(first), int(last) + 1))
        elif entry and entry != "-1":
            tokens.append(entry)
    return tuple(tokens)


def _take_while_prefixed(entries: list[str], prefix: str) -> tuple[str, ...]:
    taken = []
    for entry in entries:
        if not entry.startswith(prefix):
            break
        taken.append(entry)
    return tuple(taken)


def _leading_number(entry: str) -> int:
    """`1gpu` is 1, as strtoul reads it; no number is -1."""
    sign = entry[:1] if entry[:1] in ("+", "-") else ""
    digits = ""
    for character in entry[len(sign) :]:
        if not ("0" <= character <= "9"):
            break
        digits += character
    return int(sign + digits) if 0 < len(digits) < 10 else -1
