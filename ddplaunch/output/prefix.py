"""What stands before a worker's line. [pure]"""

from collections.abc import Mapping

FIELDS = ("rank", "local_rank", "node", "host", "stream", "time")

# Readable on dark and light screens; rank 0 is cyan.
_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)


def check_template(template: str) -> str:
    """The template itself; a ValueError says what is wrong with it."""
    import string

    expected = f"expected text with any of {', '.join('{' + field + '}' for field in FIELDS)}"
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"{expected} ({error})") from None
    for _, field, form, conversion in parts:
        if field is not None and (field not in FIELDS or form or conversion):
            raise ValueError(f"{expected}; {{{field}}} is none of them")
    if "\n" in template:
        raise ValueError(f"{expected}, in one line")
    return template


def fill_template(template: str, values: Mapping[str, str], colour_of: int | None) -> bytes:
    """The prefix of a line; coloured by rank where a terminal shows it, spaces at its end left plain."""
    text = template.format_map(values)
    if colour_of is None or not text.strip():
        return text.encode("utf-8", "surrogateescape")
    label = text.rstrip(" ")
    code = _COLOURS[colour_of % len(_COLOURS)]
    return f"\x1b[{code}m{label}\x1b[0m{text[len(label) :]}".encode("utf-8", "surrogateescape")
