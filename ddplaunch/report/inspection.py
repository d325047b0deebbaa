"""What --check found, for people and for programs. [pure]"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ddplaunch.errors import Problem
from ddplaunch.plan.render import Table


def render_inspection_json(
    found: Mapping[str, Any], problems: Sequence[Problem], warnings: Sequence[str], exit_code: int
) -> str:
    document = {
        "ok": not problems,
        "exit_code": exit_code,
        **found,
        "problems": [{"what": one.what, "cause": one.cause, "hint": one.hint} for one in problems],
        "warnings": list(warnings),
    }
    return json.dumps(document, indent=2)


def render_inspection(found: Mapping[str, Any]) -> tuple[Table, ...]:
    tables = [
        _pairs("versions", {name: value or "not found" for name, value in found["versions"].items()}),
        _device_table(found["devices"]),
        _pairs("cores", _describe_cores(found["cpus"])),
        _pairs("limits", _describe_limits(found["limits"])),
        _pairs("network", _describe_network(found["network"])),
        _pairs("cluster", _describe_cluster(found["cluster"])),
    ]
    if found.get("nodes"):
        tables.append(_node_table(found["nodes"]))
    return tuple(tables)


def _pairs(title: str, values: Mapping[str, Any]) -> Table:
    return Table(title, ("", ""), tuple((name, str(value)) for name, value in values.items()))


def _device_table(devices: Sequence[Mapping[str, Any]]) -> Table:
    if not devices:
        return _pairs("devices", {"accelerators": "none seen"})
    headers = ("card", "name", "memory used", "numa", "visible", "uuid", "used by")
    rows = tuple(
        (
            str(card["index"]),
            card["name"],
            f"{_mib(card['used_bytes'])} of {_mib(card['memory_bytes'])}",
            "" if card["numa_node"] is None else str(card["numa_node"]),
            "yes" if card["visible"] else "no",
            card["uuid"],
            ", ".join(f"pid {user['pid']} ({_mib(user['bytes'])})" for user in card["users"]),
        )
        for card in devices
    )
    return Table("devices", headers, rows)


def _node_table(nodes: Sequence[Mapping[str, Any]]) -> Table:
    rows = tuple((str(node["node"]), node["host"], _describe_trip(node)) for node in nodes)
    return Table("nodes", ("node", "host", "to node 0 and back"), rows)


def _describe_trip(node: Mapping[str, Any]) -> str:
    if node["node"] == 0:
        return "is node 0"
    return "not measured" if node["round_trip"] is None else f"{node['round_trip'] * 1000:.2f} ms"


def _describe_cores(cpus: Mapping[str, Any]) -> dict[str, str]:
    if not cpus:
        return {"usable CPUs": "unknown"}
    told = {"usable CPUs": str(cpus["usable"])}
    if cpus["cores"]:
        told["physical"] = f"cores: {cpus['cores']}, sockets: {cpus['sockets']}"
    return {**told, **{f"NUMA node {node}": f"CPUs {listed}" for node, listed in cpus["numa"].items()}}


def _describe_limits(limits: Mapping[str, Any]) -> dict[str, str]:
    def amount(name: str) -> str:
        return "not limited" if limits[name] is None else str(limits[name])

    return {
        "open files": f"{amount('open_files')} (hard limit: {amount('open_files_hard')})",
        "/dev/shm": _mib(limits["shared_memory_bytes"]),
        "free memory": _mib(limits["available_memory_bytes"]),
    }


def _describe_network(network: Mapping[str, Any]) -> dict[str, str]:
    told = {"host": network["host"], "master port": network["master_port"]}
    if network["master"] is not None:
        told["master"] = network["master"]
    return {**told, **{name: ", ".join(addresses) for name, addresses in network["interfaces"].items()}}


def _describe_cluster(cluster: Mapping[str, Any]) -> dict[str, str]:
    if cluster["scheduler"] is None:
        return {"scheduler": "none", **cluster["variables"]}
    job = f", job {cluster['job']}" if cluster["job"] else ""
    settings = {f"{name.replace('_', ' ')} from": source for name, source in cluster["settings"].items()}
    return {"scheduler": cluster["scheduler"] + job, **settings, **cluster["variables"]}


def _mib(count: int | None) -> str:
    return "unknown" if count is None else f"{count >> 20} MiB"
