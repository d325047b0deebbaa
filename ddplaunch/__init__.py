"""Start, watch and stop the workers of a PyTorch distributed training run."""

from collections.abc import Callable, Mapping, Sequence

from ddplaunch.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, TypeVar

    from ddplaunch.function.errors import LaunchFailed, WorkerFailed

    T = TypeVar("T")

__version__ = "0.1.0"
__all__ = ["LaunchFailed", "WorkerFailed", "__version__", "launch"]


def launch(
    fn: "Callable[..., T]",
    args: "Sequence[Any]" = (),
    kwargs: "Mapping[str, Any] | None" = None,
    nproc_per_node: "int | str" = "auto",
    **options: object,
) -> "list[T]":
    """Run `fn(*args, **kwargs)` in every worker, and return what they returned, by rank.

    >>> ddplaunch.launch(lambda: os.environ["RANK"], nproc_per_node=4)
    ['0', '1', '2', '3']

    `options` are the command line's: max_restarts=2, log_dir="logs", env={"A": "1"}. The function may be a
    lambda, or stand in a script or a notebook's cell; nothing has to be guarded by `if __name__ == ...`.
    The first worker to fail is raised as WorkerFailed; anything else that keeps a launch from success as
    LaunchFailed. On several nodes the results are those of this node's ranks.
    """
    from ddplaunch.function.launch import launch_function

    return launch_function(fn, args, kwargs, {"nproc_per_node": nproc_per_node, **options})


def __getattr__(name: str) -> object:
    """The exceptions, when they are asked for: the command line starts without them."""
    if name in ("LaunchFailed", "WorkerFailed"):
        from ddplaunch.function import errors

        return getattr(errors, name)
    raise AttributeError(f"module 'ddplaunch' has no attribute {name!r}")
