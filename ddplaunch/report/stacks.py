"""Where stalled workers stand, read from what faulthandler printed. [pure]"""

from collections.abc import Mapping, Sequence

from ddplaunch.record import Record

_FATAL = "Fatal Python error: "
_CURRENT = "Current thread 0x"
_THREAD = ("Thread 0x", _CURRENT)

# Code that a user did not write: torch's, other packages', Python's own.
_LIBRARY = ("/site-packages/", "/dist-packages/", "/lib/python3.", "<frozen ")

# Below the script, where it was forked and not started.
_BELOW = "/ddplaunch/preload/"

# Where ranks wait for each other.
_WAITING = "/torch/distributed/"

# Decorators on torch's collectives: nobody stands in them.
_DECORATORS = frozenset({"wrapper", "inner", "_fn", "__call__", "decorate_context"})


class Frame(Record):
    file: str
    line: int
    function: str

    @property
    def is_library(self) -> bool:
        return any(part in self.file for part in _LIBRARY)


class Standing(Record):
    """Ranks that stand at the same place, and one stack for all of them, innermost frame first."""

    ranks: tuple[int, ...]
    place: str
    stack: tuple[Frame, ...]


def group_standings(stderr: Mapping[int, Sequence[str]]) -> tuple[Standing, ...]:
    """All ranks by where they stand; the largest group first."""
    stacks = {rank: parse_stack(lines) for rank, lines in sorted(stderr.items())}
    places: dict[str, list[int]] = {}
    for rank, stack in stacks.items():
        places.setdefault(describe_place(stack), []).append(rank)
    found = [Standing(tuple(ranks), place, stacks[ranks[0]]) for place, ranks in places.items()]
    return tuple(sorted(found, key=lambda standing: -len(standing.ranks)))


def merge_standings(parts: Sequence[Sequence[Standing]]) -> tuple[Standing, ...]:
    """Those of several nodes as one: who stands at the same place stands together."""
    places: dict[str, Standing] = {}
    for standing in (standing for part in parts for standing in part):
        known = places.get(standing.place)
        ranks = standing.ranks if known is None else (*known.ranks, *standing.ranks)
        places[standing.place] = (known or standing)._replace(ranks=tuple(sorted(ranks)))
    return tuple(sorted(places.values(), key=lambda standing: -len(standing.ranks)))


def find_odd_ranks(standings: Sequence[Standing]) -> tuple[int, ...]:
    """Those the others wait for: whoever is not in torch.distributed, else whoever is not where most are."""
    waiting = [standing for standing in standings if _WAITING in _innermost(standing).file]
    others = [standing for standing in standings if standing not in waiting]
    if not waiting or not others:
        if len(standings) < 2 or len(standings[0].ranks) <= len(standings[1].ranks):
            return ()
        others = list(standings[1:])
    return tuple(sorted(rank for standing in others for rank in standing.ranks))


def _innermost(standing: Standing) -> Frame:
    return standing.stack[0] if standing.stack else Frame("", 0, "")


def parse_stack(lines: Sequence[str]) -> tuple[Frame, ...]:
    """The frames of the thread that got SIGABRT, which is the main one if it was free to.

    It is printed last: of a very long dump, the beginning may be lost.
    """
    dumps = [index for index, line in enumerate(lines) if _FATAL in line]
    dump = lines[dumps[-1] :] if dumps else lines
    starts = [index for index, line in enumerate(dump) if line.startswith(_CURRENT)]
    if dumps and not starts:
        starts = [index for index, line in enumerate(dump) if line.startswith(_THREAD)]
    frames = []
    for line in dump[starts[-1] + 1 :] if starts else ():
        frame = _parse_frame(line)
        if frame is None or _BELOW in frame.file:
            break
        frames.append(frame)
    return tuple(frames)


def describe_place(stack: Sequence[Frame]) -> str:
    """`all_reduce, train.py:41`: what was called last, and from which line of the user's own code."""
    if not stack:
        return "no Python stack (not Python? behind a shell: --signal-scope group)"
    own = next((frame for frame in stack if not frame.is_library), stack[0])
    called = next((frame for frame in stack if frame.function not in _DECORATORS), stack[0])
    return f"{called.function}, {own.file.rpartition('/')[2]}:{own.line}"


def render_frames(stack: Sequence[Frame]) -> list[str]:
    """As a traceback has them: the innermost last."""
    return [f'  File "{frame.file}", line {frame.line}, in {frame.function}' for frame in reversed(stack)]


def _parse_frame(line: str) -> Frame | None:
    """`  File "train.py", line 41 in train`."""
    file, quote, rest = line.strip().removeprefix('File "').rpartition('", line ')
    number, _, function = rest.partition(" in ")
    if not quote or not number.isdigit():
        return None
    return Frame(file, int(number), function)
