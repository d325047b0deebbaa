"""The click command: help, and the last word on every command line."""

from collections.abc import Callable, Sequence

import click

from ddplaunch import __version__
from ddplaunch.config.line import CommandLine
from ddplaunch.config.setting import Setting
from ddplaunch.config.settings import SETTINGS
from ddplaunch.config.torchrun import TORCHRUN
from ddplaunch.errors import LaunchError, Problem

_HELP = """Start SCRIPT once per worker, watch the workers, and stop them all when one fails.

Everything after SCRIPT goes to the script. Every option can also be set as DDPLAUNCH_<OPTION> in the
environment; options shared with torchrun as PET_<OPTION>, too."""


_ALL = SETTINGS + TORCHRUN


class Answer(Exception):  # noqa: N818 - it is none
    """The command line only asked a question."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class LaunchCommand(click.Command):
    """Help under the headings of the settings table."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for setting in _ALL:
            groups.setdefault(setting.group, []).append((_spelling(setting), setting.help))
        groups["Inspect"] += [("--version", "Show the version."), ("-h, --help", "Show this text.")]
        for group, rows in sorted(groups.items(), key=lambda item: item[0] == "Inspect"):
            with formatter.section(group):
                formatter.write_dl(rows, col_max=26)


def parse_arguments(arguments: Sequence[str]) -> CommandLine | str:
    """The command line as click reads it; help and the version come as text to print."""
    command = _command()
    try:
        with command.make_context("ddplaunch", list(arguments)) as context:
            parsed = command.invoke(context)
    except Answer as answer:
        return answer.text
    except click.UsageError as error:
        raise LaunchError(_usage_problem(error)) from error
    assert isinstance(parsed, CommandLine)
    return parsed


def _command() -> click.Command:
    return LaunchCommand(
        "ddplaunch",
        callback=_collect,
        params=[
            *(_option(setting) for setting in _ALL),
            _question("--version", _show_version),
            _question("--help", _show_help, "-h"),
            click.Argument(["script"], required=False, metavar="SCRIPT", type=click.UNPROCESSED),
            click.Argument(["script_args"], nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]..."),
        ],
        help=_HELP,
        add_help_option=False,
        context_settings={
            # Everything from SCRIPT on is the script's own.
            "allow_interspersed_args": False,
            "token_normalize_func": lambda name: name.replace("_", "-"),
            "max_content_width": 80,
        },
    )


def _collect(script: str | None, script_args: tuple[str, ...], **options: object) -> CommandLine:
    given = {name: value for name, value in options.items() if value is not None and value != ()}
    return CommandLine(given, script, script_args)


def _option(setting: Setting) -> click.Option:
    """click only cuts the words: values are read where DDPLAUNCH_* values are, with the same errors."""
    names = [setting.name, setting.option, *([setting.short] if setting.short else [])]
    if not setting.metavar:
        return click.Option(names, is_flag=True, default=None)
    return click.Option(names, multiple=setting.repeatable, default=None, type=click.UNPROCESSED)


def _question(
    option: str, answer: Callable[[click.Context, click.Parameter, bool], None], short: str = ""
) -> click.Option:
    names = [short, option] if short else [option]
    return click.Option(names, is_flag=True, is_eager=True, expose_value=False, callback=answer)


def _spelling(setting: Setting) -> str:
    names = f"{setting.short}, {setting.option}" if setting.short else setting.option
    return f"{names} {setting.metavar}".rstrip()


def _show_version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted:
        raise Answer(f"ddplaunch {__version__}")


def _show_help(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted:
        raise Answer(ctx.get_help())


def _usage_problem(error: click.UsageError) -> Problem:
    if isinstance(error, click.NoSuchOption):
        return Problem(f"no such option: {error.option_name}", hint=_suggest(error.option_name))
    message = error.format_message().rstrip(".")
    return Problem(message[:1].lower() + message[1:], hint="see ddplaunch --help")


def _suggest(name: str) -> str:
    """The nearest option: one that begins like it, else one that looks like it."""
    from difflib import get_close_matches

    spelled = name.replace("_", "-")
    options = [setting.option for setting in _ALL] + ["--version", "--help"]
    near = [option for option in options if option.startswith(spelled)]
    near = near or get_close_matches(spelled, options, n=2, cutoff=0.5)
    return f"did you mean {' or '.join(near[:3])}?" if near else "see ddplaunch --help"
