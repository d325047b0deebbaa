"""Slurm's way to write many host names in one word. [pure]"""

from itertools import product

from ddplaunch.config.parse import MOST_NODES


def expand_hostlist(text: str) -> list[str]:
    """`cn-[0001-0002]-[0-1],gpu7` is five hosts, in that order; a ValueError quotes what cannot be read."""
    hosts: list[str] = []
    for item in _split(text, text):
        parts = _parse_item(item, text)
        count = 1
        for choices in parts:
            count *= len(choices)
        if len(hosts) + count > MOST_NODES:
            raise ValueError(f"{text!r} names more than {MOST_NODES} hosts")
        hosts += ["".join(chosen) for chosen in product(*parts)]
    return hosts


def _split(text: str, whole: str) -> list[str]:
    """At commas outside brackets."""
    items, depth = [""], 0
    for character in text:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if depth not in (0, 1):
            raise ValueError(f"{whole!r} has brackets that do not match")
        if character == "," and not depth:
            items.append("")
        else:
            items[-1] += character
    if depth:
        raise ValueError(f"{whole!r} has brackets that do not match")
    if not all(items):
        raise ValueError(f"{whole!r} names a host without a name")
    return items


def _parse_item(item: str, whole: str) -> list[list[str]]:
    """Literals and groups, each as its choices."""
    parts: list[list[str]] = []
    while item:
        literal, bracket, rest = item.partition("[")
        if literal:
            parts.append([literal])
        if bracket:
            group, _, rest = rest.partition("]")
            parts.append([number for piece in group.split(",") for number in _parse_range(piece, whole)])
        item = rest
    return parts


def _parse_range(piece: str, whole: str) -> list[str]:
    """`08-11` is 08, 09, 10, 11: as wide as the lower bound."""
    first, dash, last = piece.partition("-")
    last = last if dash else first
    if not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit()):
        raise ValueError(f"{whole!r} has a range that is none: {piece!r}")
    low, high = int(first), int(last)
    if high < low or high - low >= MOST_NODES:
        raise ValueError(f"{whole!r} has a range that is none: {piece!r}")
    return [f"{number:0{len(first)}}" for number in range(low, high + 1)]
