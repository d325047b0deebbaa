"""--check on many nodes at once: does every node see node 0, and how far away is it?"""

from contextlib import ExitStack

from ddplaunch.config.resolve import LaunchConfig
from ddplaunch.errors import LaunchError, Problem
from ddplaunch.nodes.meeting import SOMEWHERE, claim_host, find_self, open_company
from ddplaunch.nodes.messages import Seen
from ddplaunch.plan.model import LaunchPlan
from ddplaunch.record import Record
from ddplaunch.supervise.signals import catch_signals

CHECK_SECONDS = 15.0  # who looks for mistakes does not wait for ten minutes, unless asked to


class Meeting(Record):
    """Who came, as node 0 saw it, and what kept the nodes apart."""

    seen: tuple[Seen, ...] = ()
    problems: tuple[Problem, ...] = ()


def check_together(config: LaunchConfig, plan: LaunchPlan, token: str) -> Meeting:
    """Meet the other nodes, which run --check as well."""
    if config.sources["join_timeout"] == "default":
        config = config._replace(join_timeout=CHECK_SECONDS)
    try:
        with catch_signals() as signals, ExitStack() as held:
            claim = claim_host(config, plan, signals) if config.gives_ranks else None
            if config.gives_ranks:
                plan = plan._replace(node_rank=SOMEWHERE if claim is None else 0)
            if claim is not None:
                held.callback(claim.close)
            is_asked = plan.node_rank == 0 and not config.gives_ranks
            misplaced = find_self(config, plan, signals) if is_asked else None
            if misplaced is not None:
                return Meeting(problems=(misplaced,))
            orders = held.enter_context(open_company(config, plan, token, signals, claim=claim)).measure()
    except LaunchError as failure:
        return Meeting(problems=failure.problems)
    verdict = orders.verdict
    if verdict is None or verdict.outcome == "check":
        return Meeting(orders.seen)
    problem = Problem(verdict.reason, exit_code=verdict.exit_code)
    return Meeting(orders.seen, verdict.problems or (problem,))
