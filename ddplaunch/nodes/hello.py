"""Looking at what this node would run, to compare it with the others."""

import os
import platform
import sys
import zlib

from ddplaunch import __version__
from ddplaunch.config.resolve import LaunchConfig
from ddplaunch.nodes.messages import Hello
from ddplaunch.plan.model import LaunchPlan
from ddplaunch.preflight.files import read_text

LARGEST_SCRIPT = 1 << 24


def probe_hello(config: LaunchConfig, plan: LaunchPlan) -> Hello:
    """Versions come from metadata, of which file names are enough: nothing is imported for it."""
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
        min_nnodes=config.min_nnodes,
        gives_ranks=config.gives_ranks,
        role=config.role,
        machine=_probe_machine(),
    )


def _probe_machine() -> str:
    """The same for all launchers of one network stack, until the machine starts anew."""
    try:
        return read_text("/proc/sys/kernel/random/boot_id").strip() + os.readlink("/proc/self/ns/net")
    except OSError:
        return ""


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
    """Against mistakes, not against enemies; hashlib would take megabytes of memory for it."""
    return f"{zlib.crc32(data):08x}"


def _version_of(package: str) -> str:
    """As importlib.metadata finds it, in the first place that has any; its import takes 50 ms and 4 MB."""
    for directory in sys.path:
        try:
            names = os.listdir(directory or ".")
        except OSError:
            continue
        for name in names:
            if name.startswith(f"{package}-") and name.endswith(".dist-info"):
                return name[len(package) + 1 : -len(".dist-info")]
    return ""
