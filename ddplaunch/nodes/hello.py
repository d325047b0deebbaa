"""Looking at what this node would run, to compare it with the others."""

import hashlib
import os
import platform
from importlib import metadata

from ddplaunch import __version__
from ddplaunch.config.resolve import LaunchConfig
from ddplaunch.nodes.messages import Hello
from ddplaunch.plan.model import LaunchPlan

LARGEST_SCRIPT = 1 << 24


def probe_hello(config: LaunchConfig, plan: LaunchPlan) -> Hello:
    """Versions come from metadata: nothing of torch is imported."""
    return Hello(
        host=plan.host,
        purpose="check" if config.check else "launch",
        nnodes=plan.nnodes,
        nproc=len(plan.workers),
        master_port=plan.master_port,
        max_restarts=config.max_restarts,
        run_name=config.rdzv_id or "",
        script=config.script if config.module else os.path.basename(config.script),
        script_digest="" if config.module else _digest_file(config.script),
        arguments_digest=_digest("\0".join(config.script_args).encode("utf-8", "surrogateescape")),
        torch="" if config.python or config.no_python else _version_of("torch"),
        python=platform.python_version(),
        ddplaunch=__version__,
        grace_seconds=config.grace,
        stall_seconds=config.stall_timeout or 0.0,
        join_seconds=config.join_timeout,
    )


def _digest_file(path: str) -> str:
    """Empty for what cannot be read, or is no script."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > LARGEST_SCRIPT:
            return ""
        with open(path, "rb") as file:
            return _digest(file.read())
    except OSError:
        return ""


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _version_of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
