"""Where are we? What every scheduler's variables mean, and which of them mean nothing."""

import json
import zlib
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddplaunch.argv import cut_arguments
from ddplaunch.cluster.detect import DETECTORS, detect
from ddplaunch.cluster.locate import MARKS, locate
from ddplaunch.cluster.model import Allocation, Surroundings
from ddplaunch.config.line import CommandLine
from ddplaunch.config.resolve import LaunchConfig, resolve
from ddplaunch.plan.build import plan_launch
from tests.unit.test_plan import MACHINE

STEP = {
    "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_NODEID": "1", "SLURMD_NODENAME": "n2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_JOB_NODELIST": "n[0-2]", "SLURM_JOB_NUM_NODES": "3",
}  # fmt: skip
BATCH = {
    "SLURM_JOB_ID": "7", "SLURM_NNODES": "2", "SLURM_NODEID": "0", "SLURM_JOB_NODELIST": "n[0-1]",
    "SLURMD_NODENAME": "n0",
}  # fmt: skip
OPENMPI = {
    "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
    "OMPI_COMM_WORLD_NODE_RANK": "0", "PMIX_NAMESPACE": "737738753",
}  # fmt: skip
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "1"}
PBS = {"PBS_JOBID": "17.head", "PBS_NODEFILE": "/nodes"}
VERTEX = {
    "cluster": {"workerpool0": ["a:2222"], "workerpool1": ["b:2222", "c:2222"], "workerpool2": ["ps:2222"]},
    "task": {"type": "workerpool1", "index": 1},
}
SKYPILOT = {
    "SKYPILOT_NODE_RANK": "1", "SKYPILOT_NUM_NODES": "2", "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2",
    "SKYPILOT_TASK_ID": "sky-1", "SKYPILOT_NUM_GPUS_PER_NODE": "4",
}  # fmt: skip


def port_of(job: str) -> int:
    return 10_000 + zlib.crc32(job.encode()) % 20_000


def line(*words: str) -> CommandLine:
    return cut_arguments([*words, "train.py"]).line


def where(
    environ: Mapping[str, str], *words: str, host: str = "n2", files: Mapping[str, str] | None = None
) -> Surroundings:
    return Surroundings(environ, host, files or {}, line(*words))


def configure(
    environ: Mapping[str, str], *words: str, host: str = "n2", files: Mapping[str, str] | None = None
) -> LaunchConfig:
    """As run.py does it."""
    typed = line(*words)
    allocation = detect(Surroundings(environ, host, files or {}, typed))
    return resolve(typed.options, typed.script, typed.script_args, environ, allocation)


def topology(config: LaunchConfig) -> tuple[int, int, str | None, int]:
    return config.nnodes, config.node_rank, config.master_addr, config.master_port


@pytest.mark.parametrize(
    ("environ", "words", "expected"),
    [
        (STEP, (), (2, 1, "n1", port_of("7.0.0"))),
        ({**STEP, "SLURM_RESTART_COUNT": "2"}, (), (2, 1, "n1", port_of("7.0.2"))),
        (STEP, ("--master-port", "4711", "--master-addr", "x"), (2, 1, "x", 4711)),
        (STEP, ("--nnodes", "2", "--node-rank", "1"), (2, 1, "n1", port_of("7.0.0"))),
        (STEP, ("--standalone",), (1, 0, None, 0)),
        # Nodes placed by other means, inside a job: nothing of the step fits them.
        (STEP, ("--nnodes", "4", "--node-rank", "3", "--master-addr", "x"), (4, 3, "x", 29500)),
        ({**STEP, "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_TASKS_PER_NODE": "1"}, (), (1, 0, None, 0)),
        ({**BATCH, "SLURM_NNODES": "1"}, (), (1, 0, None, 0)),
        ({**BATCH, "SLURM_STEP_ID": "4294967290", "SLURM_NNODES": "1"}, (), (1, 0, None, 0)),
        (BATCH, ("--nnodes", "2", "--node-rank", "1", "--master-addr", "x"), (2, 1, "x", 29500)),
        # Ranks of the user's own, in as many nodes: all of them derive the same port, whose rank is the same.
        (STEP, ("--nnodes", "2", "--node-rank", "0", "--master-addr", "n2"), (2, 0, "n2", port_of("7.0.0"))),
        # The run gives the ranks out, as many torchrun users have it under Slurm.
        (STEP, ("--nnodes", "1:3"), (3, 0, "n1", port_of("7.0.0"))),
        # Several launchers on a machine that are meant to be nodes.
        (
            {**STEP, "SLURM_STEP_TASKS_PER_NODE": "2(x2)"},
            ("--nnodes", "4", "--node-rank", "3", "--master-addr", "x"),
            (4, 3, "x", 29500),
        ),
        (OPENMPI, ("--master-addr", "x"), (2, 1, "x", port_of("737738753.0.0"))),
        ({**OPENMPI, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}, (), (1, 0, None, 0)),
        ({**BATCH, **OPENMPI}, (), (2, 1, "n0", port_of("737738753.0.0"))),
        ({**STEP, **OPENMPI}, (), (2, 1, "n0", port_of("737738753.0.0"))),
        (HYDRA, ("--master-addr", "x"), (2, 1, "x", 29500)),
        ({**BATCH, **HYDRA}, (), (2, 1, "n0", port_of("7.0.0"))),
        ({**STEP, **HYDRA, "SLURMD_NODENAME": "n1"}, (), (2, 1, "n0", port_of("7.0.0"))),
        ({**STEP, "PMI_RANK": "1", "PMI_SIZE": "2"}, (), (2, 1, "n1", port_of("7.0.0"))),  # srun --mpi=pmi2
        (
            {"MV2_COMM_WORLD_RANK": "0", "MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_LOCAL_SIZE": "1", **PBS},
            (),
            (2, 0, "n1.site", port_of("17.head.0.0")),
        ),
        (
            {"PALS_RANKID": "1", "PALS_LOCAL_RANKID": "0", "PALS_LOCAL_SIZE": "1", "PMI_SIZE": "2", **PBS},
            (),
            (2, 1, "n1.site", port_of("17.head.0.0")),
        ),
        (PBS, (), (2, 1, "n1.site", port_of("17.head.0.0"))),
        ({"LSB_JOBID": "5", "LSB_MCPU_HOSTS": "n1 4 n2 4 n3 4"}, (), (3, 1, "n1", port_of("5.0.0"))),
        (
            {
                "LSB_JOBID": "5", "LSB_MCPU_HOSTS": "batch 1 n1 42 n2 42", "JSM_NAMESPACE_RANK": "1",
                "JSM_NAMESPACE_SIZE": "2", "JSM_NAMESPACE_LOCAL_RANK": "0",
            },
            (),
            (2, 1, "n1", port_of("5.0.0")),
        ),
        ({"JOB_ID": "9", "PE_HOSTFILE": "/hosts"}, (), (2, 1, "n1.site", port_of("9.0.0"))),
        (
            {"PET_NNODES": "2", "PET_NODE_RANK": "1", "MASTER_ADDR": "pod-0", "MASTER_PORT": "23456"},
            (),
            (2, 1, "pod-0", 23456),
        ),
        (
            {"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "a", "MASTER_ADDR": "b"},
            (),
            (2, 1, "a", 29500),
        ),
        (
            {"SM_HOSTS": '["algo-1","algo-2"]', "SM_CURRENT_HOST": "algo-2"},
            (),
            (2, 1, "algo-1", 7777),
        ),
        ({"SM_HOSTS": '["algo-1"]', "SM_CURRENT_HOST": "algo-1"}, (), (1, 0, None, 0)),
        (
            {
                "AZUREML_EXPERIMENT_ID": "x", "AZUREML_NODE_COUNT": "2", "NODE_RANK": "1",
                "MASTER_ADDR": "10.0.0.4", "WORLD_SIZE": "2", "RANK": "1",
            },
            (),
            (2, 1, "10.0.0.4", 6105),
        ),
        (
            {
                "AZUREML_EXPERIMENT_ID": "x", "AZUREML_NODE_COUNT": "2", **OPENMPI,
                "AZ_BATCH_MASTER_NODE": "10.0.0.4:6000",
            },
            (),
            (2, 1, "10.0.0.4", 6105),
        ),
        ({"CLUSTER_SPEC": json.dumps(VERTEX)}, (), (3, 2, "a", 2222)),
        (SKYPILOT, (), (2, 1, "10.0.0.1", port_of("sky-1.0.0"))),
        (
            {"MASTER_ADDR": "a", "NODE_RANK": "1", "MASTER_PORT": "5"},
            ("--nnodes", "2"),
            (2, 1, "a", 5),
        ),
        ({"NODE_RANK": "1"}, ("--nnodes", "2", "--master-addr", "a"), (2, 1, "a", 29500)),
        ({"MASTER_ADDR": "a"}, ("--nnodes", "2", "--node-rank", "1"), (2, 1, "a", 29500)),
        # Not enough to go by: a worker's variables, or nobody asked for several nodes.
        ({"MASTER_ADDR": "a", "NODE_RANK": "1"}, (), (1, 0, None, 0)),
        ({"MASTER_ADDR": "a", "NODE_RANK": "1", "LOCAL_RANK": "0"}, ("--nnodes", "2"), (2, 0, None, 29500)),
        ({"RANK": "1", "WORLD_SIZE": "2"}, ("--nnodes", "2"), (2, 0, None, 29500)),
    ],
)  # fmt: skip
def test_what_the_variables_mean(
    environ: dict[str, str], words: tuple[str, ...], expected: tuple[int, int, str | None, int]
) -> None:
    files = {"PBS_NODEFILE": "n1.site\nn1.site\nn2.site\n", "PE_HOSTFILE": "n1.site 4 q\nn2.site 4 q\n"}
    config = configure(environ, *words, files=files)
    assert config.cluster_problems == ()
    assert topology(config) == expected


def test_an_indexed_job_finds_its_first_pod() -> None:
    hosts = "127.0.0.1 localhost\n10.1.2.3\tjob-3.svc.space.svc.cluster.local\tjob-3\n"
    environ = {"JOB_COMPLETION_INDEX": "3"}
    config = configure(environ, "--nnodes", "4", host="job-3", files={"/etc/hosts": hosts})
    assert topology(config) == (4, 3, "job-0.svc.space.svc.cluster.local", 29500)
    assert configure(environ, "--nnodes", "4", host="job-3").master_addr is None  # no subdomain, no name
    (problem,) = configure(environ, host="job-3").cluster_problems
    assert "JOB_COMPLETION_INDEX=3" in problem.what
    assert "--nnodes COMPLETIONS" in problem.hint
    (problem,) = configure(environ, "--nnodes", "2", host="job-3").cluster_problems
    assert problem.what == "JOB_COMPLETION_INDEX is 3, and there are 2 nodes (--nnodes)"


@pytest.mark.parametrize(
    ("environ", "quoted"),
    [
        ({k: v for k, v in STEP.items() if k != "SLURM_NODEID"}, "SLURM_NODEID is not set"),
        ({**STEP, "SLURM_NODEID": "x"}, "SLURM_NODEID='x'"),
        ({**STEP, "SLURM_NODEID": "2"}, "SLURM_NODEID=2"),
        ({**STEP, "SLURM_STEP_NODELIST": "n[1-3]"}, "SLURM_STEP_NODELIST=n[1-3]"),
        ({**STEP, "SLURM_STEP_NODELIST": "n[1-"}, "n[1-"),
        ({**STEP, "SLURMD_NODENAME": "n7"}, "SLURMD_NODENAME=n7"),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, "OMPI_COMM_WORLD_RANK is not set"),
        ({**OPENMPI, "OMPI_COMM_WORLD_RANK": "2"}, "OMPI_COMM_WORLD_RANK=2"),
        ({"PMI_RANK": "0"}, "PMI_SIZE is not set and yet PMI_RANK=0"),
        ({"SLURM_JOB_ID": "7"}, "SLURM_NNODES is not set and yet SLURM_JOB_ID=7"),
        ({"SLURM_STEP_ID": "7", "SLURM_NODEID": "1"}, "SLURM_JOB_ID is not set and yet SLURM_NODEID=1"),
        ({**STEP, "SLURM_STEP_TASKS_PER_NODE": "x"}, "SLURM_STEP_TASKS_PER_NODE='x'"),
        ({**STEP, "SLURM_RESTART_COUNT": "x"}, "SLURM_RESTART_COUNT='x'"),
        ({"PBS_JOBID": "17"}, "PBS_NODEFILE is not set and yet PBS_JOBID=17"),
        ({"PBS_NODEFILE": "/nodes"}, "PBS_JOBID is not set"),
        ({"LSB_JOBID": "5"}, "LSB_MCPU_HOSTS is not set"),
        ({"PE_HOSTFILE": "/hosts"}, "JOB_ID is not set"),
        (
            {"PET_NNODES": "2", "PET_NODE_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "99999"},
            "MASTER_PORT='99999'",
        ),
        ({"SM_HOSTS": '["a","a"]', "SM_CURRENT_HOST": "a"}, 'SM_HOSTS=["a","a"]'),
        ({"CLUSTER_SPEC": json.dumps({**VERTEX, "task": {"type": "workerpool1", "index": -1}})}, "index -1"),
        (PBS, "PBS_NODEFILE=/nodes"),
        ({"LSB_JOBID": "5", "LSB_MCPU_HOSTS": "a b c"}, "LSB_MCPU_HOSTS=a b c"),
        ({"LSB_JOBID": "5", "LSB_MCPU_HOSTS": "a 1 b 1"}, "LSB_MCPU_HOSTS=a 1 b 1"),
        ({"PET_NNODES": "2"}, "PET_NODE_RANK is not set"),
        ({"SM_HOSTS": "[", "SM_CURRENT_HOST": "a"}, "SM_HOSTS=["),
        ({"SM_HOSTS": '["a","b"]', "SM_CURRENT_HOST": "c"}, 'SM_HOSTS=["a","b"]'),
        ({"SM_HOSTS": '["a","b"]'}, "SM_CURRENT_HOST is not set"),
        (
            {"AZUREML_EXPERIMENT_ID": "x", "AZUREML_NODE_COUNT": "2", "WORLD_SIZE": "8"},
            "AZUREML_NODE_COUNT=2, WORLD_SIZE=8",
        ),
        (
            {"AZUREML_EXPERIMENT_ID": "x", "AZUREML_NODE_COUNT": "2"},
            "AZUREML_NODE_COUNT=2",
        ),
        ({"CLUSTER_SPEC": "{}"}, "CLUSTER_SPEC={}"),
        ({"CLUSTER_SPEC": json.dumps({**VERTEX, "task": {"type": "workerpool2"}})}, "workerpool2"),
        ({**SKYPILOT, "SKYPILOT_NODE_IPS": "10.0.0.1"}, "SKYPILOT_NODE_IPS=10.0.0.1"),
        ({**SKYPILOT, "SKYPILOT_NODE_RANK": "2"}, "SKYPILOT_NODE_RANK=2"),
    ],
)
def test_what_does_not_add_up_is_quoted(environ: dict[str, str], quoted: str) -> None:
    config = configure(environ)
    (problem,) = config.cluster_problems
    assert quoted in f"{problem.what} {problem.cause}"
    assert problem.exit_code == 3
    assert plan_launch(config, MACHINE, environ, "run").problems == (problem,)


@pytest.mark.parametrize(
    ("environ", "words", "hint"),
    [
        (
            BATCH,
            ("--nnodes", "2", "--nproc-per-node", "8"),
            "srun --ntasks=2 --ntasks-per-node=1 ddplaunch --nproc-per-node 8 train.py",
        ),
        (
            {**BATCH, "SLURM_STEP_ID": "4294967290"},
            (),
            "srun --ntasks=2 --ntasks-per-node=1 ddplaunch train.py",
        ),
        (
            {**STEP, "SLURM_STEP_TASKS_PER_NODE": "8(x2)"},
            ("--grace", "5"),
            "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 ddplaunch --nproc-per-node 8 --grace 5 train.py",
        ),
        (
            {**STEP, "SLURM_STEP_TASKS_PER_NODE": "1,2"},
            ("--nproc-per-node", "4"),
            "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 ddplaunch --nproc-per-node 4 train.py",
        ),
        (
            {**STEP, "SLURM_STEP_TASKS_PER_NODE": "2,1", "SLURM_CPUS_PER_TASK": "3"},
            ("--nnodes", "3"),
            "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=3 "
            "ddplaunch --nproc-per-node 2,1 train.py",
        ),
        (
            BATCH,  # as people write it for torchrun
            ("--nnodes", "2", "--node-rank", "0", "--master-addr", "n0"),
            "srun --ntasks=2 --ntasks-per-node=1 ddplaunch train.py",
        ),
        (
            {"SLURM_JOB_ID": "7", "SLURM_NNODES": "1", "SLURM_JOB_NODELIST": "n7"},  # salloc on a login node
            (),
            "srun --ntasks=1 --ntasks-per-node=1 ddplaunch train.py",
        ),
        (
            {**STEP, "DDPLAUNCH_NNODES": "3"},
            (),
            "srun --nodes=3 --ntasks=3 --ntasks-per-node=1 ddplaunch train.py; or unset DDPLAUNCH_NNODES",
        ),
        (
            {**STEP, **HYDRA, "PMI_SIZE": "8", "MPI_LOCALNRANKS": "4"},
            ("--master-addr", "n0", "--nnodes", "8"),
            "mpiexec -n 2 -ppn 1 ddplaunch --nproc-per-node 4 --master-addr n0 train.py",
        ),
        (
            {"AZUREML_EXPERIMENT_ID": "x", **OPENMPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
            (),
            "ddplaunch --nproc-per-node 2 train.py",
        ),
        (
            {**OPENMPI, "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"},
            (),
            "mpirun -np 2 --map-by ppr:1:node --bind-to none "
            "ddplaunch --nproc-per-node 4 --master-addr HOST train.py",
        ),
        ({**HYDRA, "MPI_LOCALNRANKS": "2"}, (), "ddplaunch --nproc-per-node 2 train.py"),
        (
            {**HYDRA, "PMI_SIZE": "3", "MPI_LOCALNRANKS": "2"},
            (),
            "mpiexec -n NODES -ppn 1 ddplaunch --nproc-per-node 2 --master-addr HOST train.py",
        ),
        (
            {**HYDRA, "MPI_LOCALNRANKS": "2"},  # all on one node, and yet somebody names a master
            ("--master-addr", "n0"),
            "mpiexec -n NODES -ppn 1 ddplaunch --nproc-per-node 2 --master-addr n0 train.py",
        ),
        (
            STEP,
            ("--nnodes", "1"),
            "--standalone instead, if each node is a run of its own; or leave --nnodes out: "
            "ddplaunch train.py",
        ),
        (STEP, ("--node-rank", "0"), "leave --node-rank out: ddplaunch train.py"),
    ],
)
def test_mistakes_get_the_corrected_command(
    environ: dict[str, str], words: tuple[str, ...], hint: str
) -> None:
    (problem,) = configure(environ, *words).cluster_problems
    assert problem.hint == hint
    assert problem.exit_code == 3


def test_sources_name_the_variables_and_the_scheduler() -> None:
    sources = configure(STEP, "--master-port", "4711").sources
    assert sources["nnodes"] == "SLURM_STEP_NUM_NODES (Slurm)"
    assert sources["node_rank"] == "SLURM_NODEID (Slurm)"
    assert sources["master_port"] == "--master-port"


def test_slurm_kills_after_30_seconds_so_the_grace_is_20() -> None:
    assert configure(STEP).grace == 20
    assert configure(STEP, "--standalone").grace == 20
    assert configure(STEP, "--grace", "25").grace == 25
    assert configure(OPENMPI, "--master-addr", "x").grace == 30
    assert configure({**BATCH, **OPENMPI}).grace == 20


def job_of(environ: Mapping[str, str]) -> Allocation:
    found = detect(where(environ))
    assert found is not None
    return found


def test_a_requeued_job_and_an_array_are_known() -> None:
    assert (job_of(STEP).job, job_of(STEP).first_attempt) == ("7.0", 0)
    array = {**STEP, "SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "3", "SLURM_RESTART_COUNT": "2"}
    assert (job_of(array).job, job_of(array).first_attempt) == ("5_3.0", 2)
    assert job_of({**BATCH, **OPENMPI, "SLURM_RESTART_COUNT": "1"}).first_attempt == 1
    assert job_of({**BATCH, **OPENMPI}).job == "7"


def test_every_detector_has_a_mark_that_wakes_it() -> None:
    """Without any of the marks no detector is loaded, and none of them would have spoken."""
    assert locate(line(), {"PATH": "/bin", "RANK": "0", "SLURM_CONF": "x"}) is None
    for environ in (STEP, BATCH, OPENMPI, HYDRA, PBS, SKYPILOT, {"CLUSTER_SPEC": "{}"}, {"SM_HOSTS": "[]"}):
        assert not set(MARKS).isdisjoint(environ)
    unmarked = dict.fromkeys(("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "JOB_ID"), "1")
    assert [detector(where(unmarked, "--nnodes", "2")) for _, detector in DETECTORS] == [None] * len(
        DETECTORS
    )


@given(st.dictionaries(st.sampled_from([*STEP, *OPENMPI, *HYDRA, *SKYPILOT, *MARKS]), st.text(max_size=6)))
def test_no_variables_are_an_exception(environ: dict[str, str]) -> None:
    """Whatever stands in them: an allocation, problems, or none."""
    found = detect(where(environ))
    assert found is None or isinstance(found, Allocation)
