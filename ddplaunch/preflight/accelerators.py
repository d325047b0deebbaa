"""Looking for accelerators, without torch and without starting CUDA."""

import os
from collections.abc import Mapping

from ddplaunch.plan.devices import VARIABLE, Card, Vendor
from ddplaunch.preflight.files import read_text
from ddplaunch.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

_NVML = "libnvidia-ml.so.1"


def probe_vendor(environ: Mapping[str, str]) -> Vendor:
    """What this machine computes on: NVIDIA's cards unless there are none and another vendor's are."""
    nvidia = probe_nvidia()
    if nvidia or VARIABLE in environ:
        return Vendor("GPU", VARIABLE, nvidia)
    for noun, variables, count in (
        # HIP_VISIBLE_DEVICES numbers within ROCR_VISIBLE_DEVICES: the one that is set is the one to narrow.
        ("GPU", ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"), _count_rocm),
        ("NPU", ("ASCEND_RT_VISIBLE_DEVICES",), _count_ascend),
        ("XPU", ("ZE_AFFINITY_MASK",), int),  # what a mask shows can be counted, what is there cannot
    ):
        variable = next((name for name in variables if name in environ), variables[0])
        cards = tuple(Card(index) for index in range(count()))
        if cards or variable in environ:
            return Vendor(noun, variable, cards)
    return Vendor("GPU", VARIABLE, ())


def probe_nvidia() -> tuple[Card, ...]:
    """NVML's cards; quietly none without a driver."""
    if not _can_load(_NVML):
        return ()
    try:
        import pynvml
    except ImportError:
        return tuple(Card(index) for index in range(_count_names("/dev", "nvidia")))
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        return tuple(_probe_card(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError:
        return ()
    finally:
        pynvml.nvmlShutdown()


def probe_driver_version() -> str:
    if not _can_load(_NVML):
        return ""
    try:
        import pynvml

        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except Exception:  # of a broken driver there is nothing to say
        return ""


def _probe_card(nvml: "Any", index: int) -> Card:
    """A card that does not answer a question (fallen off the bus, too old) is a card all the same."""

    def ask(question: str, otherwise: "Any") -> "Any":
        try:
            return getattr(nvml, question)(handle)
        except (nvml.NVMLError, AttributeError):
            return otherwise

    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError:
        return Card(index)
    memory = ask("nvmlDeviceGetMemoryInfo", None)
    pci = ask("nvmlDeviceGetPciInfo", None)
    numa = ask("nvmlDeviceGetNumaNodeId", None)
    users = ask("nvmlDeviceGetComputeRunningProcesses", ())
    return Card(
        number=index,
        uuid=str(ask("nvmlDeviceGetUUID", "")),
        name=str(ask("nvmlDeviceGetName", "")),
        memory_bytes=int(memory.total) if memory else 0,
        used_bytes=int(memory.used) if memory else 0,
        users=tuple((int(user.pid), int(user.usedGpuMemory or 0)) for user in users),
        pci=str(getattr(pci, "busId", "")),
        numa_node=numa if isinstance(numa, int) and 0 <= numa < 1 << 16 else None,
        parts=_probe_parts(nvml, handle),
    )


def _probe_parts(nvml: "Any", handle: "Any") -> tuple[str, ...]:
    parts = []
    try:
        for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
            parts.append(str(nvml.nvmlDeviceGetUUID(part)))
    except (nvml.NVMLError, AttributeError):
        pass
    return tuple(parts)


def _can_load(library: str) -> bool:
    """Whether the dynamic linker finds it; a miss costs 0.1 ms, importing pynvml 20."""
    try:
        import _ctypes

        _ctypes.dlopen(library, 0)
    except (ImportError, AttributeError, OSError):
        return False
    return True


def _count_rocm() -> int:
    """Compute nodes of the AMD driver that have a GPU."""
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    try:
        names = os.listdir(nodes)
    except OSError:
        return 0
    return sum(read_text(f"{nodes}/{name}/gpu_id").strip() not in ("", "0") for name in names)


def _count_ascend() -> int:
    return _count_names("/dev", "davinci")


def _count_names(directory: str, prefix: str) -> int:
    try:
        names = os.listdir(directory)
    except OSError:
        return 0
    return sum(name.startswith(prefix) and name[len(prefix) :].isdigit() for name in names)
