"""Tables for people, drawn by rich."""

import io
import os

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from ddplaunch.plan.render import Table

WIDE = 10_000  # off a terminal nothing is folded


def draw_tables(*tables: Table) -> str:
    """As wide as the terminal, if stdout is one."""
    drawing = io.StringIO()
    width = (
        os.get_terminal_size(1).columns if os.isatty(1) else 0
    ) or WIDE  # mpirun's terminals have no width
    console = Console(file=drawing, highlight=False, width=width)
    for table in tables:
        drawn = RichTable(
            title=table.title,
            title_justify="left",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            show_header=any(table.headers),
        )
        for header in table.headers:
            drawn.add_column(header, overflow="fold")
        for row in table.rows:
            drawn.add_row(*map(Text, row))  # a user's `[red]` is text, not markup
        console.print(drawn)
    return "\n".join(line.rstrip() for line in drawing.getvalue().splitlines())
