"""A command line, cut and written again. [pure]"""

from collections.abc import Mapping

from ddplaunch.config.settings import SETTINGS
from ddplaunch.record import Record


class CommandLine(Record):
    """Option values as text (True for a flag, a tuple for a repeatable one), and what to run."""

    options: Mapping[str, object]
    script: str | None
    script_args: tuple[str, ...]


def render_command_line(line: CommandLine) -> str:
    """The command as one would type it."""
    import shlex

    words, settings = ["ddplaunch"], SETTINGS
    if not line.options.keys() <= {setting.name for setting in SETTINGS}:
        from ddplaunch.config.torchrun import TORCHRUN

        settings += TORCHRUN
    for setting in settings:
        given = line.options.get(setting.name)
        for value in given if isinstance(given, tuple) else (given,):
            if value is not None and value is not False:
                words += [setting.option] if value is True else [setting.option, str(value)]
    if line.script is not None:
        words += ["--", line.script] if line.script.startswith("-") else [line.script]
    return shlex.join([*words, *line.script_args])
