"""The command line most people type, cut into options and script without loading click. [pure]

click costs as much as everything else the launcher imports before the first worker starts. It remains
the authority: whatever is not plainly spelled here (help, a mistake, a rare form) goes to it, and a
property test holds both to the same answer.
"""

from collections.abc import Mapping, Sequence

from ddplaunch.config.setting import Setting
from ddplaunch.config.settings import SETTINGS
from ddplaunch.record import Record


class CommandLine(Record):
    """Option values as text (True for a flag, a tuple for a repeatable one), and what to run."""

    options: Mapping[str, object]
    script: str | None
    script_args: tuple[str, ...]


class Cut(Record):
    """What could be read; `is_plain` when that is all there is, and click would say the same."""

    line: CommandLine
    is_plain: bool


def cut_arguments(arguments: Sequence[str]) -> Cut:
    """Every known option before the script, whatever stands between them."""
    known = {setting.option: setting for setting in SETTINGS}
    known.update({setting.short: setting for setting in SETTINGS if setting.short})
    options: dict[str, object] = {}
    is_plain = True
    words = iter(enumerate(arguments))
    for index, word in words:
        if not word.startswith("-"):
            return Cut(CommandLine(options, word, tuple(arguments[index + 1 :])), is_plain)
        if word == "--":
            break
        name, equals, value = word.partition("=")
        setting = known.get("--" + name[2:].replace("_", "-") if name.startswith("--") else name)
        if setting is None or (equals and not (setting.metavar and name.startswith("--"))):
            is_plain = False
        elif not setting.metavar:
            options[setting.name] = True
        else:
            given = value if equals else next(words, (0, None))[1]
            if given is not None:
                options[setting.name] = _add(setting, options.get(setting.name), given)
    return Cut(CommandLine(options, None, ()), is_plain=False)


def _add(setting: Setting, earlier: object, given: str) -> object:
    """The last one counts; a repeatable option keeps them all."""
    if not setting.repeatable:
        return given
    return (*earlier, given) if isinstance(earlier, tuple) else (given,)
