"""Looking at this machine. Reads only; what it means is for checks.py to say."""

import os
import stat
import sys
from collections.abc import Mapping

from ddplaunch.config.resolve import LaunchConfig
from ddplaunch.plan.model import Machine
from ddplaunch.preflight.accelerators import probe_vendor
from ddplaunch.preflight.facts import Facts, LimitFacts, ScriptFacts
from ddplaunch.preflight.files import read_text
from ddplaunch.record import TYPE_CHECKING

if TYPE_CHECKING:
    from ddplaunch.plan.cores import Cpu


def probe_machine(environ: Mapping[str, str], wants_cpu_map: bool) -> Machine:
    return Machine(
        host=os.uname().nodename,
        python=sys.executable,
        other_environment=_probe_other_environment(environ),
        cpus=probe_usable_cpus(),
        all_cpus=os.cpu_count() or 1,
        vendor=probe_vendor(environ),
        cpu_map=_probe_cpu_map() if wants_cpu_map else (),
        temporary_directory=_probe_temporary_directory(environ),
    )


def probe_usable_cpus() -> int:
    """CPUs that workers may run on: the affinity mask, or the cgroup's quota where that is less."""
    # macOS has no affinity.
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _probe_cpu_quota()
    return max(1, min(count, quota)) if quota else count


def probe_facts(config: LaunchConfig, environ: Mapping[str, str], wants_shared_memory: bool) -> Facts:
    environ = {**environ, **dict(config.env)}  # programs are looked for in the workers' PATH
    return Facts(
        script=probe_script(config, environ),
        interpreter=None if config.python is None else probe_program(config.python, environ),
        wrapper=probe_program(config.wrap[0], environ) if config.wrap and "{" not in config.wrap[0] else None,
        unwritable="" if config.summary_json is None else _probe_unwritable(config.summary_json),
        limits=probe_limits(wants_shared_memory),
    )


def probe_script(config: LaunchConfig, environ: Mapping[str, str]) -> ScriptFacts:
    """What would be executed; a module is looked up by Python itself, later."""
    path = config.script
    if config.module or not path:  # --check without a script
        return ScriptFacts(path)
    return probe_program(path, environ) if config.no_python else _probe_file(path)


def probe_program(path: str, environ: Mapping[str, str]) -> ScriptFacts:
    """What is executed when this is a command: a path, or a name to look for in PATH."""
    found = path if "/" in path else _find_program(path, environ)
    if found is None:
        missing = "no program of that name in PATH"
        return ScriptFacts(path, missing=missing, is_here=os.path.isfile(path))
    return _probe_file(found)


def probe_limits(wants_shared_memory: bool) -> LimitFacts:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return LimitFacts(
        open_files=None if soft == resource.RLIM_INFINITY else soft,
        open_files_hard=None if hard == resource.RLIM_INFINITY else hard,
        shared_memory_bytes=_probe_shared_memory() if wants_shared_memory else None,
        available_memory_bytes=_probe_available_memory(),
    )


def raise_open_files(wanted: int) -> None:
    """Lift the soft limit for this process and its workers; the caller knows that `wanted` is allowed."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _probe_cpu_map() -> "tuple[Cpu, ...]":
    from ddplaunch.preflight.topology import probe_cpus

    return probe_cpus()


def _probe_temporary_directory(environ: Mapping[str, str]) -> str:
    wanted = (environ.get("TMPDIR") or "/tmp").rstrip("/")
    return wanted if os.access(wanted, os.W_OK | os.X_OK) and os.path.isdir(wanted) else "/tmp"


def _probe_unwritable(path: str) -> str:
    """Why a file cannot be written there; nothing is created."""
    if os.path.isdir(path):
        return "it is a directory"
    directory = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(directory):
        return f"there is no directory {directory}"
    place = path if os.path.exists(path) and not os.path.isfile(path) else directory
    return "" if os.access(place, os.W_OK) else "permission denied"


def _probe_file(path: str) -> ScriptFacts:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        return ScriptFacts(path, missing=(getattr(error, "strerror", None) or str(error)).lower())
    return ScriptFacts(
        path,
        is_directory=stat.S_ISDIR(mode),
        is_program=stat.S_ISDIR(mode) and os.path.isfile(os.path.join(path, "__main__.py")),
        is_readable=os.access(path, os.R_OK),
        is_executable=os.access(path, os.X_OK),
    )


def _find_program(name: str, environ: Mapping[str, str]) -> str | None:
    for directory in environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(directory or ".", name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _probe_other_environment(environ: Mapping[str, str]) -> str | None:
    active = environ.get("VIRTUAL_ENV") or environ.get("CONDA_PREFIX")
    if not active or os.path.realpath(active) == os.path.realpath(sys.prefix):
        return None
    return active


def _probe_cpu_quota() -> int | None:
    """Whole CPUs of this process's cgroup: v2's `cpu.max`, else v1's two files."""
    limit = read_text("/sys/fs/cgroup/cpu.max").split()
    if not limit:
        directory = "/sys/fs/cgroup/cpu/cpu.cfs_"
        limit = [read_text(directory + "quota_us").strip(), read_text(directory + "period_us").strip()]
    try:
        quota, period = int(limit[0]), int(limit[1])
    except (ValueError, IndexError):  # "max", or no such file
        return None
    return max(1, quota // period) if quota > 0 and period > 0 else None


def _probe_shared_memory() -> int | None:
    try:
        facts = os.statvfs("/dev/shm")
    except OSError:
        return None
    return facts.f_frsize * facts.f_blocks


def _probe_available_memory() -> int | None:
    for line in read_text("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None
