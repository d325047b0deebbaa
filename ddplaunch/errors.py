"""What a user is told when a launch cannot go on: what, cause, hint, exit code. [pure]"""

from ddplaunch.record import Record

EXIT_OUTPUT = 1  # what was asked for could not be printed
EXIT_USAGE = 2
EXIT_PREFLIGHT = 3
EXIT_JOIN = 4  # the nodes did not come together, or did not agree
EXIT_LOST = 5  # a node was lost


class Problem(Record):
    """One thing that is wrong, in words for people."""

    what: str
    cause: str = ""
    hint: str = ""
    exit_code: int = EXIT_USAGE


class LaunchError(Exception):
    """Nothing was started; every problem that was found is in here."""

    def __init__(self, *problems: Problem, outcome: str = "") -> None:
        super().__init__("; ".join(problem.what for problem in problems))
        self.problems = problems
        self.outcome = outcome  # as in the summary file, where the exit code alone does not tell

    @property
    def exit_code(self) -> int:
        return self.problems[0].exit_code


def render_problem(problem: Problem) -> str:
    """The problem as it stands on the screen."""
    lines = [f"ddplaunch: error: {problem.what}"]
    if problem.cause:
        lines.append(f"  cause: {problem.cause}")
    if problem.hint:
        lines.append(f"  hint:  {problem.hint}")
    return "\n".join(map(_printable, lines))


def _printable(line: str) -> str:
    """A script's name may hold newlines and escape codes; a screen should not."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
