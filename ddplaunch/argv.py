"""The command line most people type, cut into options and script without loading click. [pure]

click costs as much as everything else the launcher imports before the first worker starts. It remains
the authority: whatever is not plainly spelled here (help, a mistake, a rare form) goes to it, and a
property test holds both to the same answer.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ddplaunch.config.settings import SETTINGS


class CommandLine(NamedTuple):
    """Option values as text (True for a flag, a tuple for a repeatable one), and what to run."""

    options: Mapping[str, object]
    script: str | None
    script_args: tuple[str, ...]


def cut_plain(arguments: Sequence[str]) -> CommandLine | None:
    """None unless every word before the script is a known option with its value."""
    known = {setting.option: setting for setting in SETTINGS}
    known.update({setting.short: setting for setting in SETTINGS if setting.short})
    options: dict[str, object] = {}
    words = iter(enumerate(arguments))
    for index, word in words:
        if not word.startswith("-"):
            return CommandLine(options, word, tuple(arguments[index + 1 :]))
        name, equals, value = word.partition("=")
        setting = known.get("--" + name[2:].replace("_", "-") if name.startswith("--") else name)
        if setting is None or (equals and not name.startswith("--")):
            return None
        if not setting.metavar:
            if equals:
                return None
            options[setting.name] = True
            continue
        given = value if equals else next(words, (0, None))[1]
        if given is None:
            return None
        earlier = options.get(setting.name, ())
        options[setting.name] = (
            (*earlier, given) if setting.repeatable and isinstance(earlier, tuple) else given
        )
    return None
