"""A launch of many nodes: find each other, agree, and only then start workers."""

from collections.abc import Mapping
from contextlib import ExitStack

from ddplaunch.config.resolve import LaunchConfig
from ddplaunch.errors import EXIT_JOIN, LaunchError, Problem
from ddplaunch.job import Job, Setting
from ddplaunch.nodes.meeting import find_self, open_company
from ddplaunch.output.plain import say
from ddplaunch.plan.build import Agreed, plan_launch, run_directory
from ddplaunch.plan.model import LaunchPlan, Machine
from ddplaunch.preflight.checks import check_master
from ddplaunch.preflight.gate import Gate, open_gate
from ddplaunch.supervise.signals import SignalPipe

TELL_SECONDS = 3.0  # for node 0 to hear that this node cannot start


def launch_together(
    config: LaunchConfig,
    machine: Machine,
    environ: Mapping[str, str],
    plan: LaunchPlan,
    signals: SignalPipe,
    started_at: float,
) -> int:
    """This node's part of the run, from the first look at the others to the exit code."""
    launch_id = plan.run_id  # until now nobody else had a say in it

    def replan(run_id: str, nprocs: tuple[int, ...]) -> LaunchPlan:
        return plan_launch(config, machine, environ, run_id, Agreed(nprocs, launch_id))

    token = environ.get("DDPLAUNCH_TOKEN", "")
    with ExitStack() as held:
        gate = _prepare(config, environ, plan, token, signals, held)
        lobby = held.enter_context(open_company(config, plan, token, signals))
        orders = lobby.join()
        say(f"the nodes differ in {doubt}" for doubt in orders.warnings)
        plan = replan(orders.run_id, orders.nprocs)
        setting = Setting(
            config,
            environ,
            gate.master_port,
            run_directory(machine, plan),
            started_at,
            orders.attempt,
            lobby,
            replan,
        )
        return Job(setting, plan, signals).run()


def _prepare(
    config: LaunchConfig,
    environ: Mapping[str, str],
    plan: LaunchPlan,
    token: str,
    signals: SignalPipe,
    held: ExitStack,
) -> Gate:
    """This node's own preflight; the others hear of it when it fails."""
    try:
        gate = held.enter_context(open_gate(config, plan, environ))
    except LaunchError as failure:
        if check_master(plan):  # nowhere to tell it
            raise
        raise LaunchError(*_tell_others(config, plan, token, signals, failure.problems)) from None
    say(gate.warnings)
    misplaced = find_self(config, plan, signals) if plan.node_rank == 0 else None
    if misplaced is None:
        return gate
    # Whoever is at the master's address takes us for a second node 0, if it is one.
    raise LaunchError(*_tell_others(config, plan, token, signals, (misplaced,), is_guest=True))


def _tell_others(
    config: LaunchConfig,
    plan: LaunchPlan,
    token: str,
    signals: SignalPipe,
    problems: tuple[Problem, ...],
    *,
    is_guest: bool = False,
) -> tuple[Problem, ...]:
    """This node cannot start, and the others should not wait for it. Why, as it stands on all nodes."""
    try:
        with open_company(config, plan, token, signals, is_guest=is_guest) as lobby:
            answer = lobby.tell_problems(problems, TELL_SECONDS)
    except LaunchError as failure:  # a control port that is taken, too
        return (*problems, *failure.problems)
    return answer if answer and answer[0].exit_code == EXIT_JOIN else problems
