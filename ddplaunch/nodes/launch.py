"""A launch of many nodes: find each other, agree, and only then start workers."""

import os
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress

from ddplaunch.config.resolve import LaunchConfig
from ddplaunch.errors import EXIT_JOIN, LaunchError, Problem
from ddplaunch.job import Job, Setting, save_summary
from ddplaunch.nodes.meeting import SOMEWHERE, claim_host, find_self, open_company
from ddplaunch.nodes.messages import START, Orders
from ddplaunch.output.plain import say
from ddplaunch.plan.build import Agreed, plan_launch, run_directory
from ddplaunch.plan.model import LaunchPlan, Machine
from ddplaunch.preflight.checks import check_master
from ddplaunch.preflight.gate import Gate, open_gate
from ddplaunch.preflight.ports import Reservation
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
    token = environ.get("DDPLAUNCH_TOKEN", "")
    claim = claim_host(config, plan, signals) if config.gives_ranks and not check_master(plan) else None
    if config.gives_ranks:
        config = config._replace(node_rank=SOMEWHERE if claim is None else 0)
        plan = plan_launch(config, machine, environ, launch_id)

    def replan(orders: Orders, node_rank: int) -> LaunchPlan:
        agreed = config._replace(nnodes=len(orders.nprocs), node_rank=node_rank)
        together = Agreed(orders.nprocs, launch_id, orders.roles)
        return plan_launch(agreed, machine, environ, orders.run_id, together)

    with ExitStack() as held:
        if claim is not None:
            held.callback(claim.close)
        gate = _prepare(config, environ, plan, token, signals, held, claim)
        picked = gate.master_port if config.gives_ranks else 0
        company = open_company(config, plan, token, signals, claim=claim, master_port=picked)
        lobby = held.enter_context(company)
        orders = lobby.join()
        if orders.stage != START:
            return _leave_unneeded(config, orders, started_at)
        say(f"the nodes differ in {doubt}" for doubt in orders.warnings)
        plan = replan(orders, lobby.company.rank_in(orders))
        place = (orders.master_port or gate.master_port, run_directory(machine, plan), started_at)
        setting = Setting(
            config, environ, *place, gate.starter, orders.attempt, orders.restarts, lobby, replan
        )
        job = Job(setting, plan, signals)
        code = job.run()
    job.save_summary_again()  # by now the other nodes have left
    return code


def _leave_unneeded(config: LaunchConfig, orders: Orders, started_at: float) -> int:
    """A run that went well without this node is no failure of it."""
    reason = "the run ended before this node could join it"
    say([reason])
    if config.summary_json is not None:
        from ddplaunch.report.model import RunResult

        result = RunResult(orders.run_id, "success", 0, reason, started_at, time.time() - started_at)
        trouble = save_summary(config.summary_json, result)
        with suppress(OSError):
            os.write(2, trouble.encode("utf-8", "backslashreplace"))
    return 0


def _prepare(
    config: LaunchConfig,
    environ: Mapping[str, str],
    plan: LaunchPlan,
    token: str,
    signals: SignalPipe,
    held: ExitStack,
    claim: Reservation | None,
) -> Gate:
    """This node's own preflight; the others hear of it when it fails."""
    try:
        gate = held.enter_context(open_gate(config, plan, environ, signals))
    except LaunchError as failure:
        if check_master(plan):  # nowhere to tell it
            raise
        told = _tell_others(config, plan, token, signals, failure.problems, claim=claim)
        raise LaunchError(*told) from None
    say(gate.warnings)
    is_asked = plan.node_rank == 0 and not config.gives_ranks  # else it has been found out
    misplaced = find_self(config, plan, signals) if is_asked else None
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
    claim: Reservation | None = None,
) -> tuple[Problem, ...]:
    """This node cannot start, and the others should not wait for it. Why, as it stands on all nodes."""
    try:
        with open_company(config, plan, token, signals, is_guest=is_guest, claim=claim) as lobby:
            answer = lobby.tell_problems(problems, TELL_SECONDS)
    except LaunchError as failure:  # a control port that is taken, too
        return (*problems, *failure.problems)
    return answer if answer and answer[0].exit_code == EXIT_JOIN else problems
