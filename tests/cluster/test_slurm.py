"""ddplaunch under a real Slurm: `srun --ntasks-per-node=1 ddplaunch train.py` needs no further word."""

import json
import re
import signal
import sys
from pathlib import Path

import pytest

from ddplaunch.cluster.hostlist import expand_hostlist
from tests.cluster.conftest import Site
from tests.support.launcher import DDPLAUNCH, worker
from tests.support.processes import wait_until

ROOT = Path(__file__).parents[2]
COMMAND = " ".join(DDPLAUNCH)


def places(text: str) -> list[dict[str, str]]:
    """What tests/support/workers/place.py said, by rank."""
    lines = re.findall(r"place (RANK=.*)", text)
    found = [dict(word.split("=", 1) for word in line.split()) for line in lines]
    return sorted(found, key=lambda place: int(place["RANK"]))


@pytest.mark.slow
def test_two_nodes_train(site: Site) -> None:
    digits = str(ROOT / "scripts" / "examples" / "digits.py")
    run = site.srun(*DDPLAUNCH, "--nproc-per-node", "2", digits, "--epochs", "12")
    assert run.wait() == 0, run.err
    found = re.search(r"test accuracy ([\d.]+)% after [\d.]+ s on 4 workers", run.out)
    assert found is not None
    assert float(found[1]) > 90


def test_node_ranks_are_slurms(site: Site) -> None:
    run = site.srun(*DDPLAUNCH, "--nproc-per-node", "2", worker("place"), nodes=3)
    assert (run.wait(), run.err) == (0, "")
    found = places(run.out)
    assert [place["RANK"] for place in found] == list("012345")
    assert [place["NODE_RANK"] for place in found] == list("001122")
    assert all(place["NODE_RANK"] == place["SLURM_NODEID"] for place in found)
    assert [place["host"] for place in found[::2]] == ["n0", "n1", "n2"]


def test_one_node_of_a_larger_job_is_a_run_of_its_own(site: Site) -> None:
    job = site.batch(f"srun -N1 -n1 -w n1 {COMMAND} --nproc-per-node 2 {worker('place')}")
    wait_until(lambda: job.is_over, "the job is over")
    assert [(place["WORLD_SIZE"], place["host"]) for place in places(job.out)] == [("2", "n1")] * 2, job.out


@pytest.mark.parametrize("option", [(), ("--kill-on-bad-exit=1",)])
def test_a_failing_rank_ends_both_nodes(site: Site, option: tuple[str, ...]) -> None:
    summary = site.directory / "summary.json"
    options = ("--nproc-per-node", "2", "--summary-json", str(summary))
    run = site.srun(*option, *DDPLAUNCH, *options, worker("fail"), "3", "exit7", env={"WORLD": "4"})
    # srun may kill the second launcher before it has left, once the first has.
    assert run.wait() in ((7,) if not option else (7, 137, 143)), run.err
    assert run.err.count("first failure: rank 3, exit code 7") >= (1 if option else 2)
    assert "node 1, host n1" in run.err
    document = json.loads(summary.read_text())
    first = document["first_failure"]
    assert (document["exit_code"], first["rank"], first["host"]) == (7, 3, "n1")
    assert "cannot write the summary" not in run.err
    if not option:  # both nodes wrote it: node 0's, which has the workers of all, is the one that stays
        assert [one["rank"] for one in document["attempts"][-1]["workers"]] == [0, 1, 2, 3]


def test_scancel_lets_workers_write_their_checkpoints(any_site: Site) -> None:
    saved = any_site.directory / "saved"
    line = f"srun --ntasks-per-node=1 {COMMAND} --nproc-per-node 2 {worker('checkpoint')} 1 {saved}"
    job = any_site.batch(f"{line} --summary")
    wait_until(lambda: job.out.count("ready pid=") == 4, "4 workers are ready")
    any_site.slurm.ask("scancel", job.number)
    wait_until(lambda: job.is_over, "the job is over")
    assert sorted(path.name for path in any_site.directory.glob("saved*")) == [f"saved{r}" for r in range(4)]


def test_a_signal_to_everything_is_an_interruption(any_site: Site) -> None:
    """Where Slurm signals workers as well, they may die of it before their launcher hears of it."""
    run = any_site.srun(*DDPLAUNCH, "--nproc-per-node", "2", worker("sleep"), env={"WORLD": "4"})
    run.wait_ready(4)
    number = any_site.slurm.ask("squeue", "--noheader", "--format=%i", "--states=running")
    any_site.slurm.ask("scancel", "--signal=TERM", number)
    assert run.wait() == 143, run.err
    assert run.err.count("received SIGTERM") >= 2
    assert "first failure" not in run.err


def test_usr1_reaches_the_workers_and_stops_nothing(any_site: Site) -> None:
    run = any_site.srun(*DDPLAUNCH, "--nproc-per-node", "2", worker("on_signal"), "0")
    run.wait_ready(4)
    number = any_site.slurm.ask("squeue", "--noheader", "--format=%i", "--states=running")
    any_site.slurm.ask("scancel", "--signal=USR1", number)
    for rank in range(4):
        run.wait_for(f"noted rank={rank} signal={int(signal.SIGUSR1)}")
    any_site.slurm.ask("scancel", "--signal=TERM", number)
    assert run.wait() == 143
    assert set(re.findall(r"saved rank=(\d)", run.out)) == set("0123")  # some may have heard it twice


@pytest.mark.slow
def test_the_time_limit_lets_workers_write_their_checkpoints(site: Site) -> None:
    """The shortest limit is a minute, so the end is moved; Slurm looks at the clock every 30 s."""
    saved = site.directory / "saved"
    line = f"srun --ntasks-per-node=1 {COMMAND} --nproc-per-node 2 {worker('checkpoint')} 1 {saved}"
    job = site.batch(line, "--time=5")
    wait_until(lambda: job.out.count("ready pid=") == 4, "4 workers are ready")
    site.slurm.ask("scontrol", "update", f"JobId={job.number}", "EndTime=now")
    wait_until(lambda: job.is_over, "the time is up", seconds=180)
    assert job.show("JobState") == "TIMEOUT"
    assert sorted(path.name for path in site.directory.glob("saved*")) == [f"saved{r}" for r in range(4)]


def test_a_job_that_is_queued_again_goes_on_counting(site: Site) -> None:
    script = site.directory / "again.py"
    script.write_text(
        "import os, signal\n"
        "print('attempt', os.environ['DDPLAUNCH_ATTEMPT'], os.environ['TORCHELASTIC_RESTART_COUNT'])\n"
        "if os.environ['DDPLAUNCH_ATTEMPT'] == '0': signal.pause()\n"
    )
    job = site.batch(f"srun --ntasks-per-node=1 {COMMAND} {script}", "--requeue", "--open-mode=append")
    wait_until(lambda: job.out.count("attempt 0 0") == 2, "the first attempt runs")
    site.slurm.ask("scontrol", "requeue", job.number)
    wait_until(lambda: job.show("JobState") == "PENDING", "the job is queued again")
    site.slurm.ask("scontrol", "update", f"JobId={job.number}", "StartTime=now")
    wait_until(lambda: job.out.count("attempt 1 1") == 2, "the second attempt runs", seconds=180)
    wait_until(lambda: job.is_over, "the job is over")


def test_an_array_has_its_number_in_the_run_id(site: Site) -> None:
    job = site.batch(f"srun {COMMAND} {worker('place')}", "--array=3", nodes=1)
    wait_until(lambda: bool(places(job.out)), "the worker has spoken")
    assert f"-job{job.number}_3.0-" in places(job.out)[0]["DDPLAUNCH_RUN_ID"]
    wait_until(lambda: job.is_over, "the job is over")


def test_without_srun_the_corrected_line_is_told_and_works(site: Site) -> None:
    job = site.batch(f"{COMMAND} --nproc-per-node 2 {worker('place')} 'a b'")
    wait_until(lambda: job.is_over, "the job is over")
    assert job.exit_code == 3
    hint = re.search(r"hint:  (srun .*)", job.out)
    assert hint is not None, job.out
    assert hint[1].endswith(" 'a b'")
    again = site.batch(hint[1].replace(" ddplaunch ", f" {COMMAND} "))
    wait_until(lambda: again.is_over, "the corrected job is over")
    assert (again.exit_code, len(places(again.out))) == (0, 4), again.out


def test_several_tasks_per_node_are_corrected(site: Site) -> None:
    run = site.type("srun", "--nodes=2", "--ntasks-per-node=2", *DDPLAUNCH, worker("place"))
    assert run.wait() == 3
    hint = re.search(r"hint:  srun (.*)", run.err)
    assert hint is not None, run.err
    words = hint[1].replace("ddplaunch", COMMAND, 1).split()
    again = site.type("srun", *words)
    assert again.wait() == 0, again.err
    assert [place["WORLD_SIZE"] for place in places(again.out)] == ["4"] * 4


@pytest.mark.parametrize(
    "line", ["mpiexec.hydra -n 2 -ppn 1", "mpirun.openmpi --allow-run-as-root -np 2 --map-by node"]
)
def test_mpirun_inside_a_job(site: Site, line: str) -> None:
    """Both start their daemons with srun, and show a step that is not ours."""
    options = ("--ntasks-per-node=1", "--cpus-per-task=2")
    job = site.batch(f"{line} {COMMAND} --nproc-per-node 2 {worker('place')}", *options)
    wait_until(lambda: job.is_over, "the job is over")
    found = places(job.out)
    assert [(place["NODE_RANK"], place["host"]) for place in found[::2]] == [("0", "n0"), ("1", "n1")], (
        job.out
    )
    assert f"-job{job.number}" in found[0]["DDPLAUNCH_RUN_ID"]


def test_as_people_write_it_for_torchrun_without_srun(site: Site) -> None:
    line = "--nnodes 2 --node-rank $SLURM_NODEID --master-addr $(hostname)"
    job = site.batch(f"{COMMAND} {line} {worker('place')}")
    wait_until(lambda: job.is_over, "the job is over")
    assert job.exit_code == 3
    assert "hint:  srun --ntasks=2 --ntasks-per-node=1 ddplaunch" in job.out


def test_as_people_write_it_for_torchrun_with_srun(site: Site) -> None:
    options = (
        "--nnodes=2",
        "--nproc_per_node=2",
        "--rdzv_id=7",
        "--rdzv_backend=c10d",
        "--rdzv_endpoint=n1:29500",
    )
    run = site.srun(*DDPLAUNCH, *options, worker("place"))
    assert run.wait() == 0, run.err
    found = places(run.out)
    assert [(place["NODE_RANK"], place["host"]) for place in found[::2]] == [("0", "n1"), ("1", "n0")]


def test_a_launch_inside_a_worker_is_refused_on_every_node(site: Site) -> None:
    script = site.directory / "nest.py"
    script.write_text(
        "import subprocess, sys\n"
        "inner = [sys.executable, '-m', 'ddplaunch', sys.argv[0]]\n"
        "done = subprocess.run(inner, capture_output=True, text=True)\n"
        "is_told = 'inside one of its own workers' in done.stderr\n"
        "print('inner', done.returncode, done.stderr.count('error'), is_told)\n"
    )
    run = site.srun(*DDPLAUNCH, str(script))
    assert run.wait() == 0, run.err
    assert run.out.count("inner 3 1 True") == 2, run.out


def test_a_larger_allocation_than_nnodes_is_refused(site: Site) -> None:
    run = site.srun(*DDPLAUNCH, "--nnodes", "2", worker("place"), nodes=3)
    assert run.wait() == 3
    assert "--nnodes is 2, and Slurm started ddplaunch on 3 nodes" in run.err
    assert "SLURM_STEP_NUM_NODES" in run.err


def test_granted_cards_are_counted(site: Site) -> None:
    run = site.srun("--gpus-per-node=2", *DDPLAUNCH, "--dry-run", "--format", "json", "train.py", nodes=1)
    assert run.wait() == 0, run.err
    workers = json.loads(run.out)["workers"]
    assert [one["devices"] for one in workers] == [["0"], ["1"]]


def test_check_says_who_spoke(site: Site) -> None:
    output = site.directory / "check_%t"
    run = site.srun(f"--output={output}", *DDPLAUNCH, "--check", "--format", "json", worker("place"))
    assert run.wait() == 0, run.out + run.err
    first = json.loads((site.directory / "check_0").read_text())
    assert first["cluster"]["scheduler"] == "Slurm"
    assert first["cluster"]["settings"]["nnodes"] == "SLURM_STEP_NUM_NODES (Slurm)"
    assert [node["host"] for node in first["nodes"]] == ["n0", "n1"]


def test_process_group_finds_its_place_among_tasks_of_srun(site: Site) -> None:
    """No launcher at all: a task per worker, as other people start them."""
    command = (sys.executable, "-u", worker("group"), "place")
    run = site.type("srun", "--nodes=2", "--ntasks-per-node=2", *command)
    assert run.wait() == 0, run.err
    found = re.findall(r"rank=(\d) local=(\d) size=4 node=(\d) .* same=True", run.out)
    assert sorted(found) == [("0", "0", "0"), ("1", "1", "0"), ("2", "0", "1"), ("3", "1", "1")]


def test_the_emitted_script_runs_to_the_end(site: Site) -> None:
    options = ("--emit", "slurm", "--nnodes", "2", "--nproc-per-node", "2")
    emitted = site.type(*DDPLAUNCH, *options, worker("place"), "it's", "$HOME")
    assert emitted.wait() == 0
    script = site.directory / "emitted.sh"
    script.write_text(emitted.out)
    job = site.submit(script)
    wait_until(lambda: job.is_over, "the job is over")
    assert job.exit_code == 0, job.out
    assert [place["host"] for place in places(job.out)] == ["n0", "n0", "n1", "n1"]


@pytest.mark.parametrize(
    "text",
    ["n1", "n[1-3]", "cn-[0001-0002]-[0-1]", "a[08-11,3],b,c[1-2]", "x[0-1]y[10-11]"],
)
def test_host_lists_read_as_scontrol_reads_them(site: Site, text: str) -> None:
    assert site.slurm.ask("scontrol", "show", "hostnames", text).split() == expand_hostlist(text)
