"""ddplaunch beside the other launchers, in one run.

    python scripts/bench/compare.py                    everything: about a quarter of an hour
    python scripts/bench/compare.py --only 'gloo'      the measures whose name has this in it
    python scripts/bench/compare.py --rounds 2         two turns of each: about six minutes
    python scripts/bench/compare.py --guard            what was promised, quickly; exit 1 if missed by 2x
    python scripts/bench/compare.py --chart FILE.png   and a picture (needs the bench extra: matplotlib)

Launchers take turns, so that a busy minute is everybody's; of each the minimum and the median are told (the
maximum where more is better), and ratios are of the minima. Those not installed are named and left out.
"""

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[2]))

from scripts.bench.measures import Measure, list_measures
from scripts.bench.peers import CAT, Peer, find_peers
from scripts.bench.tables import Readings, judge_promise, render_markdown, render_measure
from scripts.bench.workers import write_scripts

GUARD_MARGIN = 2.0
GUARD_ROUNDS = 3


def take_readings(measure: Measure, peers: dict[str, Peer], rounds: int | None) -> Readings:
    """By peer; whoever cannot do it has none."""
    found: Readings = {name: [] for name in measure.of if name in peers}
    for number in range(max(measure.rounds, measure.slow_rounds)):
        for name in found:
            if number >= min(measure.rounds_of(name), rounds or measure.rounds):
                continue
            try:
                found[name].append(measure.read(peers[name]))
            except (RuntimeError, OSError, IndexError) as error:
                print(f"  {name}: {error}", file=sys.stderr)
    return {name: readings for name, readings in found.items() if readings}


def choose(measures: list[Measure], only: str | None, guard: bool) -> list[Measure]:
    measures = [measure for measure in measures if only is None or only in measure.name]
    if not guard:
        return measures
    chosen = []
    for measure in measures:
        wanted = {name for promise in measure.promises for name in (promise.peer, promise.base)}
        of = tuple(name for name in measure.of if name in wanted)
        if of:
            chosen.append(Measure(**{**vars(measure), "of": of}))
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description="ddplaunch beside the other launchers, in one run.")
    parser.add_argument("--only", metavar="TEXT", help="measures whose name has this in it")
    parser.add_argument("--guard", action="store_true", help="only what was promised, with a margin of 2")
    parser.add_argument("--rounds", type=int, metavar="N", help="at most so many turns of each")
    parser.add_argument("--chart", metavar="FILE", help="draw the results, too")
    parser.add_argument("--markdown", metavar="FILE", help="write the table as the README has it")
    options = parser.parse_args()
    results: list[tuple[Measure, Readings]] = []
    missed = []
    with TemporaryDirectory() as directory:
        peers = find_peers(Path(directory))
        for peer in peers.values():
            if peer.missing:
                print(f"left out: {peer.name} ({peer.missing})")
        peers = {name: peer for name, peer in peers.items() if not peer.missing}
        peers[CAT] = Peer(CAT, lambda workers, script: ["cat"])
        for measure in choose(list_measures(write_scripts(Path(directory))), options.only, options.guard):
            readings = take_readings(measure, peers, GUARD_ROUNDS if options.guard else options.rounds)
            results.append((measure, readings))
            print(render_measure(measure, readings), flush=True)
            for promise in measure.promises:
                line, is_kept = judge_promise(measure, promise, readings, GUARD_MARGIN)
                print(f"  {line}", flush=True)
                missed += [] if is_kept else [f"{measure.name}: {line}"]
    if options.markdown:
        Path(options.markdown).write_text(render_markdown(results, time.strftime("%Y-%m-%d")))
    if options.chart:
        from scripts.bench.chart import draw

        draw(results, Path(options.chart))
    if options.guard and missed:
        raise SystemExit("missed by more than the margin:\n" + "\n".join(missed))


if __name__ == "__main__":
    main()
