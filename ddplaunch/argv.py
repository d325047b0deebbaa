"""The command line most people type, cut into options and script without loading click. [pure]

click costs as much as everything else the launcher imports before the first worker starts. It remains
the authority: whatever is not plainly spelled here (help, a mistake, a rare form) goes to it, and a
property test holds both to the same answer.
"""

from collections.abc import Sequence

from ddplaunch.config.line import CommandLine
from ddplaunch.config.setting import Setting
from ddplaunch.config.settings import SETTINGS
from ddplaunch.record import Record


class Cut(Record):
    """What could be read; `is_plain` when that is all there is, and click would say the same."""

    line: CommandLine
    is_plain: bool


def cut_arguments(arguments: Sequence[str]) -> Cut:
    """Every known option before the script, whatever stands between them."""
    known = _by_name(SETTINGS)
    options: dict[str, object] = {}
    is_plain = True
    words = iter(enumerate(arguments))
    for index, word in words:
        if not word.startswith("-"):
            return Cut(CommandLine(options, word, tuple(arguments[index + 1 :])), is_plain)
        if word == "--":
            break
        name, equals, value = word.partition("=")
        spelled = "--" + name[2:].replace("_", "-") if name.startswith("--") else name
        setting = known.get(spelled)
        if setting is None:
            is_plain = False
            setting = _find_foreign(spelled)
        if setting is None or (equals and not (setting.metavar and name.startswith("--"))):
            is_plain = False
        elif not setting.metavar:
            options[setting.name] = True
        else:
            given = value if equals else next(words, (0, None))[1]
            if given is not None:
                options[setting.name] = _add(setting, options.get(setting.name), given)
    return Cut(CommandLine(options, None, ()), is_plain=False)


def _by_name(settings: Sequence[Setting]) -> dict[str, Setting]:
    known = {setting.option: setting for setting in settings}
    return {**known, **{setting.short: setting for setting in settings if setting.short}}


def _find_foreign(name: str) -> Setting | None:
    """torchrun's own options are rarer, and loaded when one is there."""
    from ddplaunch.config.torchrun import TORCHRUN

    return _by_name(TORCHRUN).get(name)


def _add(setting: Setting, earlier: object, given: str) -> object:
    """The last one counts; a repeatable option keeps them all."""
    if not setting.repeatable:
        return given
    return (*earlier, given) if isinstance(earlier, tuple) else (given,)
