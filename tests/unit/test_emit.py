"""Job files: what they ask for, and that what they run is what was typed."""

import shlex
import subprocess
from collections.abc import Mapping
from typing import Any

import kubernetes_validate
import pytest
import yaml

from ddplaunch.argv import cut_arguments
from ddplaunch.config.resolve import resolve
from ddplaunch.emit.job import describe_job
from ddplaunch.emit.render import RENDERERS, render_job
from ddplaunch.errors import LaunchError
from ddplaunch.plan.build import plan_launch
from tests.unit.test_plan import MACHINE, with_cards

ARGUMENTS = (
    "train model.py",
    "it's",
    "$HOME",
    "$$",
    "a\nrm -rf x",
    "--nnodes",
    "7",
    "",
    '\\"',
    "\x85😀",
    "# :",
)


def emit(
    kind: str, *options: str, environ: Mapping[str, str] | None = None, cards: int = 0, script: bool = True
) -> str:
    given = environ or {}
    words = ["--emit", kind, *options, *(ARGUMENTS if script else ("train.py",))]
    line = cut_arguments(words).line
    config = resolve(line.options, line.script, line.script_args, given)
    machine = with_cards(cards) if cards else MACHINE
    plan = plan_launch(config, machine, given, "emit")
    return render_job(kind, describe_job(line, config, plan, machine, given, "/home/my dir"))


def manifest(*options: str, **others: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    service, job = yaml.safe_load_all(emit("kubernetes", *options, **others))
    return service, job


@pytest.mark.parametrize("options", [(), ("--nnodes", "3", "--nproc-per-node", "8", "--grace", "60")])
@pytest.mark.parametrize("cards", [0, 4])
@pytest.mark.parametrize("version", ["1.27", "1.37"])
def test_the_manifest_is_what_kubernetes_takes(options: tuple[str, ...], cards: int, version: str) -> None:
    for document in manifest(*options, cards=cards):
        kubernetes_validate.validate(document, version, strict=True)


def test_the_manifest_runs_what_was_typed() -> None:
    service, job = manifest(
        "--nnodes", "3", "--nproc-per-node", "8", "--env", "A=b c", "--grace", "60", cards=8
    )
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 3)
    assert service["spec"]["clusterIP"] == "None"
    assert pod["subdomain"] == service["metadata"]["name"] == job["metadata"]["name"] == "train-model"
    assert pod["terminationGracePeriodSeconds"] > 60
    (container,) = pod["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 8
    words = [word.replace("$$", "$") for word in container["command"]]  # as the kubelet reads them
    line = cut_arguments(words[1:]).line
    assert (line.script, *line.script_args) == ARGUMENTS
    assert line.options == {
        "nnodes": "3", "nproc_per_node": "8", "env": ("A=b c",), "grace": "60",
        "master_addr": "train-model-0.train-model", "master_port": "29500",
    }  # fmt: skip


def directives(text: str, mark: str) -> list[str]:
    return [line.removeprefix(mark + " ") for line in text.splitlines() if line.startswith(mark + " ")]


def test_what_sbatch_is_asked_for() -> None:
    options = ("--nnodes", "2", "--nproc-per-node", "4", "--omp-threads", "3", "--gpus-per-proc", "2")
    asked = directives(emit("slurm", *options), "#SBATCH")
    assert asked == [
        "--job-name=train-model", "--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=12",
        "--gpus-per-node=8", "--output=%x-%j.out",
    ]  # fmt: skip


def test_cards_are_only_asked_for_where_they_are_meant() -> None:
    assert "\n##SBATCH --gpus-per-node=2\n" in emit("slurm", "--nproc-per-node", "2")
    assert "\n##SBATCH --gpus-per-node=1\n" in emit("slurm")
    assert "\n#SBATCH --gpus" not in emit("slurm")
    assert "\n#SBATCH --gpus-per-node=2\n" in emit("slurm", "--nproc-per-node", "2", cards=2)
    assert "\n#SBATCH --gpus-per-node=2\n" in emit("slurm", "--nproc-per-node", "2", "--isolate-gpus")
    assert "ngpus=2:mpiprocs=1" in emit("pbs", "--nproc-per-node", "2", cards=2)
    assert "#PBS -l select=1:ncpus=2:mpiprocs=1" in emit("pbs", "--nproc-per-node", "2")


def test_chosen_cards_are_asked_for_and_then_all_ours() -> None:
    text = emit("slurm", "--gpus", "2,3", script=False)
    assert "\n#SBATCH --gpus-per-node=2\n" in text
    assert "\n    ddplaunch train.py" in text
    assert "--gpus 2,3" in emit("ssh", "--gpus", "2,3", script=False)  # those machines have them all


def test_cards_that_nobody_can_count_here() -> None:
    text = emit("slurm", "--nproc-per-node", "gpu")
    assert (
        "# Change: the cards of a node. ddplaunch starts a worker for each.\n#SBATCH --gpus-per-node=1\n"
        in text
    )


def test_what_is_no_text_is_no_manifest() -> None:
    with pytest.raises(LaunchError, match="is not text"):
        emit("kubernetes", "--env", "A=\udcff")


def test_names_begin_with_a_letter() -> None:
    line = cut_arguments(["--emit", "kubernetes", "123-weird_ü.py"]).line
    config = resolve(line.options, line.script, (), {})
    plan = plan_launch(config, MACHINE, {}, "emit")
    assert describe_job(line, config, plan, MACHINE, {}, "/").name == "run-123-weird"


def test_the_grace_is_the_one_that_will_hold() -> None:
    assert "SIGTERM and 20 s" in emit("slurm")
    text = emit("slurm", "--grace", "45")
    assert "SIGTERM and 45 s" in text
    assert "\n#SBATCH --signal=TERM@55\n" in text


@pytest.mark.parametrize("kind", ["slurm", "pbs", "ssh"])
def test_scripts_run_what_was_typed(kind: str) -> None:
    """The shell itself reads them; a program that prints its arguments stands for srun, mpiexec and ssh."""
    options = ("--nnodes", "2", "--nproc-per-node", "2", "--env", "A=b c", "--master-addr", "n0")
    text = emit(kind, *options)
    shows = "".join(name + '() { printf "%s\\0" "$@"; }; ' for name in ("srun", "mpiexec"))
    shows += 'ssh() { [ "$2" != h0 ] || printf "%s\\0" "$@"; }; '  # both hosts at once, and one is enough
    fake = shows + "head() { echo n0; }; cd() { :; }; set -- h0 h1;"
    done = subprocess.run(["bash", "-c", f"{fake}\n{text}"], capture_output=True, check=True)
    words = done.stdout.decode().split("\0")
    if kind == "ssh":  # what is left is for the shell there
        words = shlex.split(words[2].partition(" exec ")[2])
    line = cut_arguments(words[next(i for i, word in enumerate(words) if word.startswith("--nproc")) :]).line
    script = (line.script, *line.script_args)
    assert script == ARGUMENTS if kind == "ssh" else script[: len(ARGUMENTS)] == ARGUMENTS
    assert line.options["nproc_per_node"] == "2"
    assert line.options["env"] == ("A=b c",)


def test_variables_become_options() -> None:
    environ = {"DDPLAUNCH_MAX_RESTARTS": "2", "PET_NNODES": "2", "DDPLAUNCH_ISOLATE_GPUS": "1"}
    text = emit("slurm", environ=environ, script=False)
    assert "ddplaunch --isolate-gpus --max-restarts 2 train.py" in text
    assert "--nodes=2" in text


@pytest.mark.parametrize("kind", list(RENDERERS))
def test_no_argument_escapes_from_a_comment(kind: str) -> None:
    first = next(line for line in emit(kind).splitlines() if "Made by" in line)
    assert first.startswith("# Made by: ddplaunch ")
    assert "rm -rf" in first
