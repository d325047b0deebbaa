"""Looking at everything --check reports. A question that this machine does not answer is left open."""

import platform
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ddplaunch import __version__
from ddplaunch.config.resolve import LaunchConfig
from ddplaunch.plan.cores import describe_cpus
from ddplaunch.plan.devices import Card
from ddplaunch.plan.model import LaunchPlan, Machine
from ddplaunch.preflight.accelerators import probe_driver_version
from ddplaunch.preflight.facts import LimitFacts
from ddplaunch.preflight.topology import probe_cpus

REACH_SECONDS = 2.0

# What the usual schedulers leave in the environment of a job.
CLUSTER_VARIABLES = (
    "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NUM_NODES", "SLURM_STEP_NODELIST", "SLURM_NODEID",
    "SLURM_STEP_TASKS_PER_NODE", "SLURM_GPUS_ON_NODE", "SLURM_RESTART_COUNT", "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PALS_RANKID", "PBS_JOBID", "PBS_NODEFILE", "LSB_JOBID",
    "LSB_MCPU_HOSTS", "PE_HOSTFILE", "PET_NNODES", "PET_NODE_RANK", "JOB_COMPLETION_INDEX", "SM_HOSTS",
    "AZUREML_EXPERIMENT_ID", "CLUSTER_SPEC", "SKYPILOT_NODE_RANK", "KUBERNETES_SERVICE_HOST",
)  # fmt: skip


def survey_machine(
    config: LaunchConfig,
    plan: LaunchPlan,
    machine: Machine,
    environ: Mapping[str, str],
    limits: LimitFacts,
    port: str,
) -> dict[str, Any]:
    """Plain values, by section."""
    return {
        "versions": _ask(lambda: _survey_versions(machine), {}),
        "devices": [_describe_card(card, plan) for card in machine.vendor.cards],
        "cpus": _ask(lambda: _survey_cpus(machine), {}),
        "limits": limits._asdict(),
        "network": {
            "host": machine.host,
            "interfaces": _ask(_survey_interfaces, {}),
            "master_port": port,
            "master": _ask(lambda: _survey_master(plan), None) if plan.nnodes > 1 else None,
        },
        "cluster": _survey_cluster(config, plan, environ),
    }


def _survey_cluster(config: LaunchConfig, plan: LaunchPlan, environ: Mapping[str, str]) -> dict[str, Any]:
    """Who spoke, what was taken from it, and what else schedulers left in the environment."""
    allocation = config.allocation
    scheduler = None if allocation is None else allocation.scheduler
    said = {name: source for name, source in plan.sources.items() if source.endswith(f" ({scheduler})")}
    return {
        "scheduler": scheduler,
        "job": None if allocation is None else allocation.job or None,
        "settings": said,
        "variables": {name: environ[name] for name in CLUSTER_VARIABLES if name in environ},
    }


def _ask(question: Callable[[], Any], otherwise: Any) -> Any:
    """However bare the machine: a report with a gap is better than none."""
    try:
        return question()
    except Exception:
        return otherwise


def _survey_versions(machine: Machine) -> dict[str, str | None]:
    from importlib import metadata

    def version_of(package: str) -> str | None:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return None

    return {
        "ddplaunch": __version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "torch": version_of("torch"),
        "nvidia driver": probe_driver_version() or None,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def _describe_card(card: Card, plan: LaunchPlan) -> dict[str, Any]:
    return {
        "index": card.number,
        "name": card.name,
        "uuid": card.uuid,
        "memory_bytes": card.memory_bytes,
        "used_bytes": card.used_bytes,
        "users": [{"pid": pid, "bytes": held} for pid, held in card.users],
        "pci": card.pci,
        "numa_node": card.numa_node,
        "mig": list(card.parts),
        "visible": card in plan.visible.cards,
    }


def _survey_cpus(machine: Machine) -> dict[str, Any]:
    cpus = probe_cpus()
    nodes: dict[str, list[int]] = {}
    for cpu in sorted(cpus, key=lambda cpu: cpu.node):
        nodes.setdefault(str(cpu.node), []).append(cpu.number)
    return {
        "usable": machine.cpus,
        "cores": len({(cpu.package, cpu.core) for cpu in cpus}) or None,
        "sockets": len({cpu.package for cpu in cpus}) or None,
        "numa": {node: describe_cpus(numbers) for node, numbers in nodes.items()},
    }


def _survey_interfaces() -> dict[str, list[str]]:
    import psutil

    up = {name for name, facts in psutil.net_if_stats().items() if facts.isup}
    return {
        name: [entry.address for entry in entries if entry.family.name in ("AF_INET", "AF_INET6")]
        for name, entries in sorted(psutil.net_if_addrs().items())
        if name in up
    }


def _survey_master(plan: LaunchPlan) -> str:
    """Whether this node could reach the master, or is it."""
    import socket

    if plan.master_addr is None:
        return "no address given"
    try:
        found = socket.getaddrinfo(plan.master_addr, plan.master_port, type=socket.SOCK_STREAM)
    except OSError as error:
        return f"{plan.master_addr} does not resolve: {(error.strerror or str(error)).lower()}"
    family, _, _, _, address = found[0]
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address[0], 0))
            return f"{plan.master_addr} is this node"
        except OSError:
            pass
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(REACH_SECONDS)
        try:
            probe.connect(address)
            return f"{plan.master_addr} answers on port {plan.master_port}"
        except ConnectionRefusedError:
            return f"{plan.master_addr} can be reached; nobody listens on port {plan.master_port} yet"
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            return f"{plan.master_addr} cannot be reached on port {plan.master_port}: {reason}"
