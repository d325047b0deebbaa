"""Streams that go to files of their own. [pure]"""

from ddplaunch.record import Record

STREAMS = {"stdout": 1, "stderr": 2}  # as bits

Masks = tuple[tuple[int | None, int], ...]  # by local rank; None: all others


class Streams(Record):
    """Which streams of which local ranks are kept apart, and which are still shown."""

    redirected: Masks = ()  # to a file, and not shown
    teed: Masks = ()  # to a file, and shown
    shown_ranks: frozenset[int] | None = None  # local ranks; None: all
    filters: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())  # lines of stdout, of stderr that are copied

    def kept(self, local_rank: int) -> frozenset[str]:
        mask = _find(self.redirected, local_rank) | _find(self.teed, local_rank)
        return frozenset(name for name, bit in STREAMS.items() if mask & bit)

    def shown(self, local_rank: int) -> frozenset[str]:
        if self.shown_ranks is not None and local_rank not in self.shown_ranks:
            return frozenset()
        hidden = _find(self.redirected, local_rank) & ~_find(self.teed, local_rank)
        return frozenset(name for name, bit in STREAMS.items() if not hidden & bit)

    @property
    def has_files(self) -> bool:
        return any(mask for _, mask in self.redirected + self.teed) or any(self.filters)


def parse_masks(value: str) -> Masks:
    """`3` is all streams of all ranks, `0:1,10:2` stdout of rank 0 and stderr of rank 10."""
    expected = "expected 0 to 3 for all local ranks, or RANK:N pairs such as 0:1,1:2"
    masks: list[tuple[int | None, int]] = []
    for part in value.removeprefix("=").split(","):  # `-r=3`, as argparse takes it
        rank, colon, mask = part.rpartition(":")
        is_rank = rank.isascii() and rank.isdigit() if colon else "," not in value
        if not is_rank or mask not in ("0", "1", "2", "3"):
            raise ValueError(expected)
        masks.append((int(rank) if colon else None, int(mask)))
    return tuple(masks)


def _find(masks: Masks, local_rank: int) -> int:
    return next((mask for rank, mask in masks if rank is None or rank == local_rank), 0)
