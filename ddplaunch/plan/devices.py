"""Which accelerators are visible, read as torch reads it. [pure]"""

from collections.abc import Mapping

from ddplaunch.errors import EXIT_PREFLIGHT, Problem
from ddplaunch.record import Record

VARIABLE = "CUDA_VISIBLE_DEVICES"


class Visible(Record):
    """The visible cards in the order torch numbers them, and what is wrong with the list."""

    devices: tuple[str, ...]
    source: str
    problems: tuple[Problem, ...] = ()


def detect_visible(environ: Mapping[str, str], card_count: int) -> Visible:
    """The cards workers will see; `card_count` is what the machine has, 0 when that is unknown.

    An unset variable shows every card; an empty one hides them all.
    """
    listed = environ.get(VARIABLE)
    if listed is None:
        return Visible(tuple(map(str, range(card_count))), f"this machine ({VARIABLE} is not set)")
    source = f"{VARIABLE}={listed}"
    tokens = _parse_list(listed)
    problems = []
    repeated = sorted({token for token in tokens if tokens.count(token) > 1})
    if repeated:
        problems.append(
            Problem(
                f"{source} names {', '.join(repeated)} twice",
                "CUDA then shows no card at all",
                "name each card once",
                EXIT_PREFLIGHT,
            )
        )
    absent = [token for token in tokens if card_count and token.isdigit() and int(token) >= card_count]
    if absent:
        cards = "card 0" if card_count == 1 else f"cards 0 to {card_count - 1}"
        problems.append(
            Problem(
                f"{source}: card {', '.join(absent)} does not exist",
                f"this machine has {cards}",
                exit_code=EXIT_PREFLIGHT,
            )
        )
    return Visible(tokens, source, tuple(problems))


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
