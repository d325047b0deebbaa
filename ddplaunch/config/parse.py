"""From the text a user wrote to a value; a ValueError says what was expected. [pure]"""

from collections.abc import Callable

Parser = Callable[[str], object]

# Beyond these a number is a slip of the keyboard, and planning for it would only eat memory.
MOST_NODES = 100_000
MOST_RESTARTS = 1_000_000
MOST_SECONDS = 1_000_000_000
MOST_WORKERS = 32_768  # of a node: Linux's usual limit of process ids

_YES = frozenset({"1", "true", "t", "yes", "y", "on"})
_NO = frozenset({"0", "false", "f", "no", "n", "off"})


def text(value: str) -> str:
    if not value:
        raise ValueError("expected some text")
    return value


def address(value: str) -> str:
    """`[::1]` is how people write `::1` beside ports; nobody can look it up like that."""
    is_wrapped = value.startswith("[") and value.endswith("]") and ":" in value
    return text(value[1:-1] if is_wrapped else value)


def flag(value: str) -> bool:
    lowered = value.strip().lower()
    if lowered in _YES:
        return True
    if lowered in _NO:
        return False
    raise ValueError("expected 1 or 0")


def whole_number(minimum: int, maximum: int | None = None) -> Callable[[str], int]:
    expected = f"expected {minimum} or more" if maximum is None else f"expected {minimum} to {maximum}"

    def parse(value: str) -> int:
        number = _digits(value, expected)
        if number < minimum or (maximum is not None and number > maximum):
            raise ValueError(expected)
        return number

    return parse


def seconds(value: str) -> float:
    expected = "expected a number of seconds, 0 or more"
    if not value or not set(value) <= set("0123456789."):  # float() would also take 1_0, 1e9 and nan
        raise ValueError(expected)
    try:
        number = float(value)
    except ValueError:
        raise ValueError(expected) from None
    if number > MOST_SECONDS:
        raise ValueError(f"expected at most {MOST_SECONDS} seconds")
    return number


def some_seconds(value: str) -> float:
    number = seconds(value)
    if number == 0:
        raise ValueError("expected a number of seconds, more than 0")
    return number


def one_of(*names: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value not in names:
            raise ValueError(f"expected {' or '.join(names)}")
        return value

    return parse


def nodes(value: str) -> int | tuple[int, int]:
    """`2` and `2:2` are 2; `1:4` is a run that may grow and shrink."""
    low, colon, high = value.partition(":")
    expected = f"expected 1 to {MOST_NODES}, or MIN:MAX"
    least = _digits(low, expected)
    most = _digits(high, expected) if colon else least
    if most < least:
        raise ValueError(f"{expected} where MIN is at most MAX")
    if not 1 <= least <= most <= MOST_NODES:
        raise ValueError(expected)
    return least if least == most else (least, most)


def nproc(value: str) -> tuple[int, ...] | str:
    """`4` is (4,), `2,3,3` is one number per node, `auto`, `gpu`, `xpu` and `cpu` stay words."""
    expected = f"expected 1 to {MOST_WORKERS}, one number per node such as 2,3,3, or auto, gpu, xpu or cpu"
    if value in ("auto", "gpu", "xpu", "cpu"):
        return value
    numbers = tuple(_digits(part, expected) for part in value.split(","))
    if min(numbers) < 1 or max(numbers) > MOST_WORKERS:
        raise ValueError(expected)
    return numbers


def ranks(value: str) -> frozenset[int]:
    """`0,2-4` is {0, 2, 3, 4}."""
    expected = "expected ranks such as 0 or 0,2-4"
    found: set[int] = set()
    for part in value.split(","):
        first, dash, last = part.strip().partition("-")
        low = _digits(first, expected)
        high = _digits(last, expected) if dash else low
        if high < low or high - low > 1_000_000:
            raise ValueError(expected)
        found.update(range(low, high + 1))
    return frozenset(found)


def positions(value: str) -> tuple[int, ...]:
    """`2,0,5-7` is (2, 0, 5, 6, 7): the order counts."""
    expected = "expected numbers of cards, each once, such as 0,3 or 4-7"
    found: list[int] = []
    for part in value.split(","):
        first, dash, last = part.partition("-")
        low = _digits(first, expected)
        high = _digits(last, expected) if dash else low
        if low < 0 or high < low or high > MOST_WORKERS:
            raise ValueError(expected)
        found += range(low, high + 1)
    if len(set(found)) != len(found):
        raise ValueError(expected)
    return tuple(found)


def console(value: str) -> frozenset[int] | None:
    """None shows every rank, an empty set shows none."""
    if value == "all":
        return None
    if value == "none":
        return frozenset()
    try:
        return ranks(value)
    except ValueError:
        raise ValueError("expected all, none, or ranks such as 0 or 0,2-4") from None


def assignments(values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    pairs = []
    for value in values:
        name, equals, setting = value.partition("=")
        if not equals or not name:
            raise ValueError("expected NAME=VALUE")
        pairs.append((name, setting))
    return tuple(pairs)


def template(value: str) -> str:
    from ddplaunch.output.prefix import check_template

    return check_template(value)


def modules(value: str) -> tuple[str, ...]:
    """`torch,my.data` as it stands in import statements; `none` takes back what a variable says."""
    if value == "none":
        return ()
    names = tuple(value.split(","))
    if not all(part.isidentifier() for name in names for part in name.split(".")):
        raise ValueError("expected names of modules, such as torch or torch,my.data")
    return names


def words(value: str) -> tuple[str, ...]:
    """Split as a shell would, so that quotes keep spaces together."""
    import shlex

    try:
        found = tuple(shlex.split(value))
    except ValueError as error:
        raise ValueError(f"expected words as a shell reads them ({error})") from None
    if not found:
        raise ValueError("expected a command")
    return found


def _digits(value: str, expected: str) -> int:
    """int() would also take `1_0`, ` 5 ` and Arabic digits; a launcher should not guess."""
    sign, digits = (value[:1], value[1:]) if value[:1] in ("-", "+") else ("", value)
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise ValueError(expected)
    return int(sign + digits)
