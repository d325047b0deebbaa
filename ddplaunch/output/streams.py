"""One pipe of one worker: bytes come in, whole prefixed lines go out, the last ones are remembered."""

from ddplaunch.output.lines import LONGEST_HELD, Tail, cut_lines, prefix_lines
from ddplaunch.output.sink import Sink

TAIL_BYTES = 1 << 15

_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)


class Stream:
    """Feed it what the worker wrote; `sink` None hides the worker."""

    def __init__(self, rank: int, fd: int, sink: Sink | None, prefix: bytes) -> None:
        self.rank = rank
        self.fd = fd
        self.sink = sink
        self.tail = Tail(TAIL_BYTES)
        self._prefix = prefix
        self._pending = b""
        self._mid_line = False  # the beginning of the pending line is already out

    def feed(self, chunk: bytes) -> None:
        self.tail.add(chunk)
        if self.sink is None:
            return
        block, self._pending = cut_lines(self._pending, chunk)
        if block:
            self._emit(block)
        if len(self._pending) > LONGEST_HELD:
            self._emit_beginning()

    def finish(self) -> None:
        """The worker is over: a last line without newline gets one."""
        if self.sink is not None and (self._pending or self._mid_line):
            self._emit(self._pending + b"\n")
        self._pending = b""

    def _emit(self, block: bytes) -> None:
        assert self.sink is not None
        if self._mid_line:
            end = block.index(b"\n") + 1
            self.sink.write(block[:end])
            self._mid_line = False
            block = block[end:]
        if block:
            self.sink.write(prefix_lines(block, self._prefix))

    def _emit_beginning(self) -> None:
        assert self.sink is not None
        self.sink.write(self._pending if self._mid_line else self._prefix + self._pending)
        self._mid_line = True
        self._pending = b""


def make_prefix(rank: int, world_size: int, colour: bool) -> bytes:
    """`[ 3] `, as wide as the largest rank."""
    label = f"[{rank:>{len(str(world_size - 1))}}]"
    if colour:
        return f"\x1b[{_COLOURS[rank % len(_COLOURS)]}m{label}\x1b[0m ".encode()
    return f"{label} ".encode()
