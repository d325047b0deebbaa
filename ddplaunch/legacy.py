"""python -m ddplaunch.legacy: as python -m torch.distributed.launch, which passes --local-rank on."""

import os
import sys
from collections.abc import Mapping, Sequence

from ddplaunch.argv import cut_arguments
from ddplaunch.cli import main as cli
from ddplaunch.errors import LaunchError, Problem, render_problem


def add_local_rank(arguments: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Before the script's own arguments, unless --use-env; --pass-local-rank says how it is spelled."""
    options = cut_arguments(arguments).line.options
    told = (environ.get(prefix + "USE_ENV", "0") not in ("", "0") for prefix in ("PET_", "DDPLAUNCH_"))
    if options.get("use_env") or any(told):
        return list(arguments)
    if options.get("no_python"):
        raise LaunchError(
            Problem("--no-python without --use-env", "a program takes no --local-rank", "--use-env")
        )
    return ["--pass-local-rank", "dash", *arguments]


def main() -> None:
    try:
        arguments = add_local_rank(sys.argv[1:], os.environ)
    except LaunchError as error:
        sys.stderr.write(render_problem(error.problems[0]) + "\n")
        sys.exit(error.exit_code)
    cli(arguments)


if __name__ == "__main__":
    main()
