"""The readings as a picture: one panel per measure, one bar per launcher."""

from collections.abc import Sequence
from pathlib import Path

from scripts.bench.measures import Measure
from scripts.bench.peers import DDPLAUNCH, PRELOAD
from scripts.bench.tables import Readings, best

_OURS = {DDPLAUNCH: "#1f77b4", PRELOAD: "#0b3d66"}
_THEIRS = "#c4c4c4"


def draw(results: Sequence[tuple[Measure, Readings]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = 3
    rows = -(-len(results) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(15, 2.3 * rows), squeeze=False)
    for axis in axes.flat[len(results) :]:
        axis.axis("off")
    for axis, (measure, readings) in zip(axes.flat, results, strict=False):
        names = list(readings)
        values = [best(measure, readings[name]) for name in names]
        bars = axis.barh(names, values, color=[_OURS.get(name, _THEIRS) for name in names])
        axis.bar_label(bars, [f" {value:.{measure.digits}f}" for value in values], fontsize=8)
        axis.invert_yaxis()
        axis.set_xlim(0, max(values) * 1.18 or 1)
        better = "more is better" if measure.more_is_better else "less is better"
        axis.set_title(f"{measure.name} [{measure.unit}, {better}]", fontsize=9, loc="left")
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
