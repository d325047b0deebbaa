"""SageMaker, AzureML, Vertex AI and SkyPilot: the platform starts one container per node. [pure]"""

import json
from typing import Any

from ddplaunch.cluster.model import (
    Allocation,
    Found,
    Surroundings,
    UnclearError,
    check_rank,
    derive_port,
    find_own_index,
    quote,
    read_number,
    read_port,
    read_text,
)
from ddplaunch.cluster.mpi import OPENMPI, refuse_neighbours

SAGEMAKER_PORT = 7777
AZUREML_PORT = 6105
_AZUREML_SETS = frozenset({"RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})


def detect_sagemaker(where: Surroundings) -> Allocation | None:
    environ = where.environ
    if "SM_HOSTS" not in environ:
        return None
    gpus = read_number(environ, "SM_NUM_GPUS") if "SM_NUM_GPUS" in environ else 0
    allocation = Allocation("SageMaker", gpus=Found(gpus, "SM_NUM_GPUS") if gpus else None)
    hosts = _read_json(where, "SM_HOSTS")
    is_list = isinstance(hosts, list) and bool(hosts) and all(isinstance(host, str) for host in hosts)
    if not is_list or len(set(hosts)) != len(hosts):
        raise UnclearError(f"{quote(environ, 'SM_HOSTS')} makes no sense", "expected a list of hosts")
    refuse_neighbours(OPENMPI, where)
    if len(hosts) == 1:
        return allocation
    current = read_text(environ, "SM_CURRENT_HOST")
    values = {
        "nnodes": Found(len(hosts), "SM_HOSTS"),
        "node_rank": Found(
            find_own_index(hosts, current, quote(environ, "SM_HOSTS")), "SM_HOSTS, SM_CURRENT_HOST"
        ),
        "master_addr": Found(hosts[0], "SM_HOSTS"),
        "master_port": Found(SAGEMAKER_PORT, "SageMaker"),
    }
    return allocation._replace(values=values)


def detect_azureml(where: Surroundings) -> Allocation | None:
    environ = where.environ
    if "AZUREML_EXPERIMENT_ID" not in environ:
        return None
    nnodes = read_number(environ, "AZUREML_NODE_COUNT", 1) if "AZUREML_NODE_COUNT" in environ else 1
    if environ.get("WORLD_SIZE", str(nnodes)) != str(nnodes):
        raise UnclearError(
            "AzureML starts several processes per node; one ddplaunch starts all workers of its node",
            quote(environ, "AZUREML_NODE_COUNT", "WORLD_SIZE"),
            "process_count_per_instance: 1 in the job's distribution",
        )
    refuse_neighbours(OPENMPI, where)
    if nnodes == 1:
        return Allocation("AzureML", sets=_AZUREML_SETS)
    # Jobs of the MPI distribution have no NODE_RANK.
    rank = next((name for name in ("NODE_RANK", "OMPI_COMM_WORLD_RANK") if name in environ), None)
    if rank is None:
        cause = f"and yet {quote(environ, 'AZUREML_EXPERIMENT_ID', 'AZUREML_NODE_COUNT')}"
        raise UnclearError("NODE_RANK is not set", cause)
    node_rank = read_number(environ, rank)
    check_rank(node_rank, nnodes, quote(environ, rank, "AZUREML_NODE_COUNT"))
    master = "AZ_BATCH_MASTER_NODE" if environ.get("AZ_BATCH_MASTER_NODE") else "MASTER_ADDR"
    master = "MASTER_ADDR" if environ.get("MASTER_ADDR") else master
    address = read_text(environ, master)
    has_port = "MASTER_PORT" in environ
    port = read_port(environ, "MASTER_PORT") if has_port else AZUREML_PORT
    values = {
        "nnodes": Found(nnodes, "AZUREML_NODE_COUNT"),
        "node_rank": Found(node_rank, rank),
        "master_addr": Found(address if master == "MASTER_ADDR" else address.partition(":")[0], master),
        "master_port": Found(port, "MASTER_PORT" if has_port else "AzureML"),
    }
    return Allocation("AzureML", values, sets=_AZUREML_SETS)


def detect_vertex(where: Surroundings) -> Allocation | None:
    """workerpool0 is one replica, the master; workerpool1 has the others."""
    if "CLUSTER_SPEC" not in where.environ:
        return None
    spec = _read_json(where, "CLUSTER_SPEC")
    try:
        pools, task = spec["cluster"], spec["task"]
        hosts = [*pools["workerpool0"], *pools.get("workerpool1", ())]
        pool, index = task["type"], int(task.get("index", 0))
        address, _, port = hosts[0].rpartition(":")
        if index < 0 or not address or not 0 < int(port) < 1 << 16:
            raise ValueError(f"index {index}, master {hosts[0]}")
        node_rank = {"workerpool0": 0, "workerpool1": 1 + index}.get(pool, -1)
        values = {
            "nnodes": Found(len(hosts), "CLUSTER_SPEC"),
            "node_rank": Found(node_rank, "CLUSTER_SPEC"),
            "master_addr": Found(address, "CLUSTER_SPEC"),
            "master_port": Found(int(port), "CLUSTER_SPEC"),
        }
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        cause = f"{type(error).__name__}: {error}"
        raise UnclearError(f"{quote(where.environ, 'CLUSTER_SPEC')} makes no sense", cause) from None
    if len(hosts) == 1:
        return Allocation("Vertex AI")
    if node_rank < 0:
        cause = "the nodes of a run are in workerpool0 and workerpool1"
        raise UnclearError(f"CLUSTER_SPEC says that this is {pool}", cause)
    check_rank(node_rank, len(hosts), f"CLUSTER_SPEC says that this is {pool}, index {index}")
    return Allocation("Vertex AI", values)


def detect_skypilot(where: Surroundings) -> Allocation | None:
    environ, per_node = where.environ, "SKYPILOT_NUM_GPUS_PER_NODE"
    if "SKYPILOT_NODE_RANK" not in environ:
        return None
    gpus = read_number(environ, per_node) if environ.get(per_node) else 0
    allocation = Allocation("SkyPilot", gpus=Found(gpus, per_node) if gpus else None)
    nnodes = read_number(environ, "SKYPILOT_NUM_NODES", 1)
    if nnodes == 1:
        return allocation
    node_rank = read_number(environ, "SKYPILOT_NODE_RANK")
    check_rank(node_rank, nnodes, quote(environ, "SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES"))
    addresses = read_text(environ, "SKYPILOT_NODE_IPS").split()
    if len(addresses) != nnodes:
        said = ", ".join(addresses)
        cause = f"{quote(environ, 'SKYPILOT_NUM_NODES')}, SKYPILOT_NODE_IPS={said}"
        raise UnclearError("SkyPilot's variables contradict each other", cause)
    values = {
        "nnodes": Found(nnodes, "SKYPILOT_NUM_NODES"),
        "node_rank": Found(node_rank, "SKYPILOT_NODE_RANK"),
        "master_addr": Found(addresses[0], "SKYPILOT_NODE_IPS"),
        "master_port": Found(derive_port(read_text(environ, "SKYPILOT_TASK_ID")), "SKYPILOT_TASK_ID"),
    }
    return allocation._replace(values=values)


def _read_json(where: Surroundings, name: str) -> Any:
    try:
        return json.loads(read_text(where.environ, name))
    except (ValueError, RecursionError):
        raise UnclearError(f"{quote(where.environ, name)} makes no sense", "expected JSON") from None
