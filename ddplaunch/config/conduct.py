"""The settings about how a run is watched, shown and looked at: the second half of the table. [pure]"""

from ddplaunch.config import parse
from ddplaunch.config.setting import Setting

_OUTPUT = "Output"
_SUPERVISION = "Supervision"
_NODES = "Many nodes"
_INSPECT = "Inspect"

CONDUCT: tuple[Setting, ...] = (
    Setting(
        "output",
        _OUTPUT,
        parse.one_of("prefix", "raw"),
        None,
        "prefix: whole lines, each with its rank. raw: untouched, the default for a single worker.",
        "prefix|raw",
    ),
    Setting(
        "console",
        _OUTPUT,
        parse.console,
        None,
        "Ranks to show: all (the default), none, or a list. A failing rank is always reported.",
        "all|none|LIST",
    ),
    Setting(
        "prefix",
        _OUTPUT,
        parse.template,
        "[{rank}] ",
        "What stands before a line ('[{rank}] '): {rank}, {local_rank}, {node}, {host}, {stream}, {time}.",
        "TEMPLATE",
    ),
    Setting(
        "log_dir",
        _OUTPUT,
        parse.text,
        None,
        "Keep all output as DIR/<run-id>/attempt_0/rank_3.log; DIR/latest is the newest run.",
        "DIR",
        torchrun=True,
    ),
    Setting(
        "log_max_bytes",
        _OUTPUT,
        parse.whole_number(1),
        None,
        "Begin a log file anew when it would grow beyond N bytes; the one before is kept as rank_3.log.1.",
        "N",
    ),
    Setting("summary_json", _OUTPUT, parse.text, None, "Write how the run ended to this file.", "FILE"),
    Setting(
        "grace",
        _SUPERVISION,
        parse.seconds,
        30.0,
        "Seconds between SIGTERM and SIGKILL when workers are stopped (30; 20 under Slurm).",
        "S",
    ),
    Setting(
        "max_restarts",
        _SUPERVISION,
        parse.whole_number(0, parse.MOST_RESTARTS),
        0,
        "After a failure or a stall start all workers again, this many times (0).",
        "N",
        torchrun=True,
    ),
    Setting(
        "min_uptime",
        _SUPERVISION,
        parse.seconds,
        0.0,
        "A failure earlier than this after the start is not retried (0).",
        "S",
    ),
    Setting(
        "restart_backoff",
        _SUPERVISION,
        parse.seconds,
        0.0,
        "Wait before the first restart, doubled for every further one (0).",
        "S",
    ),
    Setting(
        "stall_timeout",
        _SUPERVISION,
        parse.some_seconds,
        None,
        "No output, and under 1 % of a core in every worker, for S seconds: print all Python stacks "
        "and end (exit 6).",
        "S",
    ),
    Setting(
        "timeout", _SUPERVISION, parse.some_seconds, None, "End the run after S seconds (exit 124).", "S"
    ),
    Setting(
        "signal_scope",
        _SUPERVISION,
        parse.one_of("leader", "group"),
        "leader",
        "Signals go to the worker (leader, the default) or to all it started (group: for shell wrappers).",
        "leader|group",
    ),
    Setting(
        "control_port",
        _NODES,
        parse.whole_number(1, 65535),
        None,
        "Port on node 0 where the launchers meet, else master port + 1.",
        "PORT",
    ),
    Setting(
        "join_timeout",
        _NODES,
        parse.some_seconds,
        600.0,
        "How long to wait for all nodes to come (600; exit 4).",
        "S",
    ),
    Setting(
        "heartbeat_timeout",
        _NODES,
        parse.some_seconds,
        15.0,
        "A node without a sign of life for S seconds is lost (15; exit 5).",
        "S",
    ),
    Setting(
        "rdzv_id",
        _NODES,
        parse.text,
        None,
        "A name for the run: nodes with another one are turned away.",
        "NAME",
        torchrun=True,
    ),
    Setting("dry_run", _INSPECT, parse.flag, False, "Print who would be which rank; start nothing."),
    Setting(
        "format",
        _INSPECT,
        parse.one_of("table", "json", "shell"),
        "table",
        "How --dry-run prints; --check knows table and json.",
        "table|json|shell",
    ),
    Setting(
        "check",
        _INSPECT,
        parse.flag,
        False,
        "Look at everything a launch would, and report it; start nothing. SCRIPT may be left out.",
    ),
    Setting(
        "emit",
        _INSPECT,
        parse.one_of("slurm", "kubernetes", "pbs", "ssh"),
        None,
        "Print a job file that does all this on a cluster; start nothing.",
        "slurm|kubernetes|pbs|ssh",
    ),
    Setting("debug", _INSPECT, parse.flag, False, "Show tracebacks of ddplaunch itself."),
)
