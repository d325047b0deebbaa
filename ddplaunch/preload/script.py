"""Running a script or a module in this process exactly as `python script.py` or `python -m module` would."""

import io
import os
import pkgutil
import runpy
import sys
import types
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from importlib.util import MAGIC_NUMBER

from ddplaunch.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from types import TracebackType

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_FUNCTION = os.path.join(os.path.dirname(os.path.dirname(_HERE)), "function", "worker.py")


class Script(Record):
    """What will be run; where it is does not depend on what modules do to the working directory."""

    path: str  # empty: a module
    is_archive: bool

    def run(self, argv: Sequence[str]) -> None:
        """Does not return before the script does; what it raises ends the interpreter in the usual way."""
        _set_arguments(argv)
        try:
            if not self.path:
                runpy._run_module_as_main(argv[3])  # type: ignore[attr-defined]  # as `python -m` does
            elif self.is_archive:
                runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]
            else:
                _run_file(self.path, sys.modules["__main__"])
        except SystemExit:
            raise
        except BaseException:
            _leave_us_out_of_it()
            raise


def prepare(argv: Sequence[str]) -> Script:
    """Before the modules are imported: arguments, paths and `__main__` are the script's for them as well.

    `argv` is a command line `python -u script ...` or `python -u -m module ...`.
    """
    is_module = argv[2] == "-m"
    path = "" if is_module else _make_absolute(argv[2])
    script = Script(path, _is_archive(path))
    _set_arguments(argv)
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    vars(main).update(__builtins__=sys.modules["builtins"])
    if sys.version_info < (3, 14):
        vars(main).update(__annotations__={})
    if path == _FUNCTION:
        from ddplaunch.function.files import CALL, read_path

        sys.path[:] = read_path(os.environ[CALL])
    elif not getattr(sys.flags, "safe_path", False):  # python -P, since 3.11
        directory = path if script.is_archive else os.path.dirname(os.path.realpath(path))
        sys.path[0] = os.getcwd() if is_module else directory
    return script


def renew_main() -> None:
    """After gc.freeze(): what a frozen namespace has in it would not be finalised when Python ends.

    A file that a script leaves open is written then. Where a module keeps the `__main__` it saw, it stays.
    """
    old = sys.modules["__main__"]
    if sys.getrefcount(old) > 3:  # sys.modules, `old`, and the question itself
        return
    sys.modules["__main__"] = new = types.ModuleType("__main__")
    vars(new).update(vars(old))


def has_own_modules() -> bool:
    """Whether a module is there that is neither installed nor Python's: it may open files as scripts do."""
    files = (getattr(module, "__file__", None) for module in tuple(sys.modules.values()))
    return any(isinstance(file, str) and not _is_installed(file) for file in files)


def _is_installed(file: str) -> bool:
    places = (os.path.dirname(os.__file__) + os.sep, os.path.dirname(os.path.dirname(_HERE)) + os.sep)
    return file.startswith(places) or "site-packages" in file or "dist-packages" in file


def _set_arguments(argv: Sequence[str]) -> None:
    sys.orig_argv[:] = argv
    sys.argv[:] = argv[3:] if argv[2] == "-m" else argv[2:]


def _run_file(path: str, main: types.ModuleType) -> None:
    with io.open_code(path) as file:  # once: it may be a pipe
        data = file.read()
    is_compiled = data.startswith(MAGIC_NUMBER)
    loader = SourcelessFileLoader if is_compiled else SourceFileLoader
    vars(main).update(__file__=path, __cached__=None, __loader__=loader("__main__", path))
    code = pkgutil.read_code(io.BytesIO(data)) if is_compiled else None
    exec(code or compile(data, path, "exec", dont_inherit=True), vars(main))


def _make_absolute(path: str) -> str:
    """As Python has it in `__file__` since 3.9: not normalised."""
    return path if os.path.isabs(path) else f"{os.getcwd()}/{path}"


def _is_archive(path: str) -> bool:
    """Python runs what is in it: a zip file, or a directory with a __main__.py."""
    return bool(path) and pkgutil.get_importer(path) is not None


def _leave_us_out_of_it() -> None:
    """The traceback begins where the script does. Its own sys.excepthook, if it has one, shows it."""
    shown_by = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, traceback: "TracebackType | None") -> None:
        while traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(_HERE):
            traceback = traceback.tb_next
        shown_by(kind, error.with_traceback(traceback), traceback)

    sys.excepthook = show
