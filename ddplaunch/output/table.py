"""Tables for people, drawn by rich."""

from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from ddplaunch.plan.render import Table


def print_tables(*tables: Table) -> None:
    console = Console(highlight=False)
    for table in tables:
        drawn = RichTable(title=table.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for header in table.headers:
            drawn.add_column(header, overflow="fold")
        for row in table.rows:
            drawn.add_row(*(_plain(cell) for cell in row))
        console.print(drawn)


def _plain(cell: str) -> str:
    """A user's `[red]` is text, not markup."""
    return cell.replace("[", r"\[")
