"""The short way through the command line agrees with click, wherever it answers at all."""

import shlex

from hypothesis import given, settings
from hypothesis import strategies as st

from ddplaunch.argv import cut_arguments
from ddplaunch.command import parse_arguments
from ddplaunch.config.line import CommandLine, render_command_line
from ddplaunch.config.settings import SETTINGS
from ddplaunch.errors import LaunchError

_spellings = [setting.option for setting in SETTINGS]
_spellings += [spelling.replace("-", "_").replace("__", "--", 1) for spelling in _spellings]
_words = st.one_of(
    st.sampled_from(_spellings),
    st.sampled_from(["-m", "--", "-", "", "-x", "--help", "--version", "--nproc", "-1", "0,1", "a b"]),
    st.builds("{}={}".format, st.sampled_from(_spellings), st.sampled_from(["", "4", "a=b", "-"])),
    st.sampled_from(["train.py", "4", "auto"]),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(_words, max_size=7))
def test_what_is_cut_plainly_is_what_click_says(words: list[str]) -> None:
    line, is_plain = cut_arguments(words)
    if is_plain:
        assert parse_arguments(words) == line


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), max_size=6))
def test_everything_after_the_script_is_the_scripts(arguments: list[str]) -> None:
    expected = CommandLine({"nproc_per_node": "2"}, "train.py", tuple(arguments))
    line = ["--nproc-per-node", "2", "train.py", *arguments]
    assert cut_arguments(line) == (expected, True)
    assert parse_arguments(line) == expected


@settings(deadline=None)
@given(st.lists(_words, max_size=7))
def test_a_line_that_is_written_again_says_the_same(words: list[str]) -> None:
    line, is_plain = cut_arguments(words)
    if is_plain:
        again = cut_arguments(shlex.split(render_command_line(line))[1:])
        assert again == (line, True)


def test_an_abbreviation_is_an_error_that_names_the_option() -> None:
    try:
        parse_arguments(["--nproc", "2", "train.py"])
    except LaunchError as error:
        (problem,) = error.problems
        assert problem.what == "no such option: --nproc"
        assert problem.hint == "did you mean --nproc-per-node?"
    else:
        raise AssertionError("an abbreviation was accepted")


def test_an_unreadable_line_still_tells_what_it_can() -> None:
    words = ["--nproc", "--summary_json=out.json", "--debug", "train.py", "--debug=2", "--grace", "3"]
    (options, script, script_args), is_plain = cut_arguments(words)
    assert (options, is_plain) == ({"summary_json": "out.json", "debug": True}, False)
    assert (script, script_args) == ("train.py", ("--debug=2", "--grace", "3"))
