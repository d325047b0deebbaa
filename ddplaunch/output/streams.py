"""One pipe of one worker: bytes come in, whole prefixed lines go out, the last ones are remembered."""

from collections.abc import Callable

from ddplaunch.output.lines import Tail, cut_lines, prefix_lines, settle_bars
from ddplaunch.output.logs import Writer
from ddplaunch.output.sink import Sink

TAIL_BYTES = 1 << 15
# Of a line without an end this much is held back; then it goes out in pieces.
LONGEST_HELD = 1 << 20


class Stream:
    """Feed it what the worker wrote; without a sink the worker is hidden, without a log it is not kept."""

    def __init__(
        self, rank: int, fd: int, sink: Sink | None, log: Writer | None, prefix: Callable[[], bytes]
    ) -> None:
        self.rank, self.fd = rank, fd
        self.sink, self.log = sink, log
        self.is_mid_line = False  # the beginning of the pending line is already out
        self._tail = Tail(TAIL_BYTES)
        self._prefix = prefix
        self._pending = b""
        self._is_bar = False  # the pending line is being written over

    def feed(self, chunk: bytes) -> None:
        block, pending = cut_lines(self._pending, chunk)
        if block:
            self._emit(settle_bars(block) if self._is_bar or b"\r" in block else block)
            self._is_bar = False
        if b"\r" in pending:
            self._is_bar = True
            pending = settle_bars(pending)
        self._pending = pending
        if len(pending) > LONGEST_HELD:
            self._emit_piece()

    def finish(self) -> None:
        """The worker is over: a last line without newline gets one."""
        if self._pending or self.is_mid_line:
            self._emit(self._pending + b"\n")
        self._pending = b""

    def break_line(self) -> None:
        """Others have waited long enough for the end of this line: it goes on in a line of its own."""
        if self.is_mid_line:
            self._write(b"\n", b"")
            self.is_mid_line = False

    def last_lines(self) -> list[str]:
        return self._tail.lines()

    @property
    def bar(self) -> bytes:
        """The present state of a progress bar, as a terminal shows it; empty when there is none."""
        state = self._pending.rstrip(b"\r")
        return self._prefix() + state if self._is_bar and state else b""

    def _emit(self, block: bytes) -> None:
        """Lines up to their newlines; the first may be the end of one that is out in part."""
        if self.is_mid_line:
            end = block.index(b"\n") + 1
            self._write(block[:end], b"")
            self.is_mid_line = False
            block = block[end:]
        if block:
            self._write(block, self._prefix())

    def _emit_piece(self) -> None:
        piece, self._pending = self._pending, b""
        self._tail.add(piece)
        if self.log is not None:
            self.log.write(piece)
        if self.sink is not None:
            self.sink.write(piece if self.is_mid_line else self._prefix() + piece)
        self.is_mid_line = True

    def _write(self, block: bytes, prefix: bytes) -> None:
        self._tail.add(block)
        if self.log is not None:
            self.log.write(block)
        if self.sink is not None:
            self.sink.write(prefix_lines(block, prefix))
