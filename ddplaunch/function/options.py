"""launch()'s keyword arguments as the command line they stand for. [pure]"""

import shlex
from collections.abc import Mapping

from ddplaunch.config.settings import SETTINGS
from ddplaunch.config.torchrun import TORCHRUN

# What to run is the function, and there is no terminal to read from; looking at a launch instead of making it
# is for the command line.
_NOT_HERE = frozenset(
    {"module", "no_python", "pass_local_rank", "interactive_rank", "dry_run", "check", "emit", "format"}
)


def render_options(options: Mapping[str, object]) -> list[str]:
    """`max_restarts=2` is `--max-restarts 2`, `env={"A": 1}` is `--env A=1`, a flag is True or False."""
    known = {setting.name: setting for setting in SETTINGS + TORCHRUN if setting.name not in _NOT_HERE}
    words: list[str] = []
    for name, value in options.items():
        setting = known.get(name)
        if setting is None:
            raise TypeError(f"launch() has no option {name!r}{_suggest(name, list(known))}")
        if value is None or value is False or not (setting.metavar or value):
            continue
        if not setting.metavar:
            words.append(setting.option)
        elif setting.repeatable:
            pairs = [f"{key}={each}" for key, each in value.items()] if isinstance(value, Mapping) else value
            words += [word for pair in pairs for word in (setting.option, str(pair))]  # type: ignore[attr-defined]
        elif name == "wrap" and isinstance(value, (list, tuple)):
            words += [setting.option, shlex.join(map(str, value))]
        elif isinstance(value, (list, tuple)):
            words += [setting.option, ",".join(map(str, value))]
        else:
            words += [setting.option, str(value)]
    return words


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Without variables that would turn a launch into something else."""
    unwanted = {prefix + name.upper() for name in _NOT_HERE for prefix in ("DDPLAUNCH_", "PET_")}
    return {name: value for name, value in environ.items() if name not in unwanted}


def _suggest(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
