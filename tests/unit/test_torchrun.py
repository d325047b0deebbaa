"""What torchrun's users type, in the ways that its parser lets through."""

from collections.abc import Mapping

import pytest

from ddplaunch.cluster.detect import detect
from ddplaunch.cluster.model import Surroundings
from ddplaunch.config.line import CommandLine
from ddplaunch.config.resolve import LaunchConfig, resolve
from ddplaunch.errors import LaunchError


def read(environ: Mapping[str, str] | None = None, **options: str) -> LaunchConfig:
    return resolve(options, "train.py", (), environ or {})


def test_a_flag_of_torchruns_wins_over_a_variable_of_ours() -> None:
    assert read({"DDPLAUNCH_GRACE": "60"}, shutdown_timeout="5").grace == 5.0
    assert read({"DDPLAUNCH_JOIN_TIMEOUT": "60"}, rdzv_conf="timeout=5").join_timeout == 5.0
    options = {"nnodes": "2", "node_rank": "0", "rdzv_endpoint": "host:29500"}
    assert read({"PET_MASTER_ADDR": "elsewhere"}, **options).master_addr == "host"
    assert read({"PET_SHUTDOWN_TIMEOUT": "5"}, grace="7").grace == 7.0


def test_the_endpoint_is_where_nodes_meet_whatever_is_said_beside_it() -> None:
    said = {"nnodes": "2", "rdzv_backend": "c10d", "rdzv_endpoint": "host:29500", "master_addr": "127.0.0.1"}
    config = read({}, **said, master_port="29500")  # as many scripts say it twice
    assert (config.master_addr, config.control_port, config.master_port) == ("host", 29500, 0)
    config = read({}, **said, master_port="29600")  # a port that a firewall lets through
    assert (config.master_addr, config.control_port, config.master_port) == ("host", 29500, 29600)
    config = read({}, nnodes="2", node_rank="1", rdzv_endpoint="host:29500", master_addr="elsewhere")
    assert (config.master_addr, config.master_port) == ("host", 29500)


@pytest.mark.parametrize(("said", "meant"), [("[::1]", "::1"), ("::1", "::1"), ("host[1]", "host[1]")])
def test_an_address_in_brackets(said: str, meant: str) -> None:
    assert read(master_addr=said).master_addr == meant


def test_what_of_the_rendezvous_configuration_has_a_name_here() -> None:
    config = read(
        rdzv_backend="c10d",
        rdzv_conf="join_timeout=5,timeout=9,last_call_timeout=0,is_host=t,read_timeout=60,store_type=tcp",
    )
    assert (config.join_timeout, config.last_call, config.is_host) == (5.0, 0.0, True)
    assert read(rdzv_conf="keep_alive_interval=2").heartbeat_timeout == 6.0
    assert read(rdzv_conf="keep_alive_interval=2,keep_alive_max_attempt=4").heartbeat_timeout == 8.0
    assert read(rdzv_conf="keep_alive_max_attempt=4", heartbeat_timeout="9").heartbeat_timeout == 9.0
    with pytest.raises(LaunchError) as refused:
        read(rdzv_conf="timeout=x,is_host=perhaps,keep_alive_max_attempt=0")
    assert len(refused.value.problems) == 3


def test_one_node_meets_where_a_static_endpoint_says_and_has_no_other_rank() -> None:
    config = read(rdzv_endpoint="localhost:29831")
    assert (config.master_addr, config.master_port) == ("localhost", 29831)
    assert read(rdzv_endpoint="localhost:0").master_port == 0
    assert read(rdzv_backend="c10d", node_rank="3").node_rank == 0


def test_a_number_of_nodes_that_is_said_wins_over_kubeflows() -> None:
    environ = {"PET_NNODES": "2"}
    line = CommandLine({"nnodes": "1"}, "train.py", ())
    config = resolve(line.options, "train.py", (), environ, detect(Surroundings(environ, "pod", {}, line)))
    assert (config.cluster_problems, config.nnodes) == ((), 1)


def test_the_prefix_is_a_template_as_python_has_it() -> None:
    environ = {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "$$${rank} {x} $local_rank "}
    assert read(environ).prefix == "${rank} {{x}} {local_rank} "


def test_spaces_equals_signs_and_unset_variables() -> None:
    assert read(rdzv_conf="timeout = 5 , other=1").join_timeout == 5.0
    streams = read(redirects="=3").streams
    assert streams is not None
    assert streams.redirected == ((None, 3),)
    assert read(rdzv_endpoint="", local_ranks_filter="").streams is None
    config = read(log_dir="", rdzv_id="")
    assert (config.log_dir, config.rdzv_id) == (None, None)
    streams = read(local_ranks_filter="0, 2", monitor_interval="1e-1").streams
    assert streams is not None
    assert streams.shown_ranks == frozenset({0, 2})
    assert (read(run_path="1", module="1", no_python="1").module) is False
    assert read(logs_specs="default").script == "train.py"


@pytest.mark.parametrize(
    "options", [{"standalone": "1"}, {"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0"}]
)
def test_a_range_from_one_on_this_machine_alone_is_one_node(options: dict[str, str]) -> None:
    config = read({}, nnodes="1:4", **options)
    assert (config.nnodes, config.node_rank, config.gives_ranks) == (1, 0, False)


def test_an_elastic_job_of_kubeflow_needs_no_node_rank() -> None:
    environ = {"PET_NNODES": "1:3", "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "job-worker-0:23456"}
    found = detect(Surroundings(environ, "job-worker-1", {}, CommandLine({}, "train.py", ())))
    config = resolve({}, "train.py", (), environ, found)
    assert config.cluster_problems == ()
    assert (config.min_nnodes, config.nnodes, config.gives_ranks) == (1, 3, True)
    assert (config.master_addr, config.control_port) == ("job-worker-0", 23456)
