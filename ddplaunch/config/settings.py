"""Every option once: its name, how it is read, its default and its line in --help. [pure]

The command line, the environment (DDPLAUNCH_<NAME>, PET_<NAME>) and --help are all made from this table.
"""

from ddplaunch.config import parse
from ddplaunch.config.setting import Setting

DEFAULT_MASTER_PORT = 29500  # torch's


_TOPOLOGY = "Topology"
_WORKER = "Worker"
_DEVICES = "Devices and cores"
_OUTPUT = "Output"
_SUPERVISION = "Supervision"
_NODES = "Many nodes"
_INSPECT = "Inspect"

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "nnodes",
        _TOPOLOGY,
        parse.whole_number(1, parse.MOST_NODES),
        1,
        "Number of nodes (machines).",
        "N",
        torchrun=True,
    ),
    Setting(
        "node_rank",
        _TOPOLOGY,
        parse.whole_number(0),
        0,
        "Which node this is, from 0.",
        "R",
        torchrun=True,
    ),
    Setting(
        "nproc_per_node",
        _TOPOLOGY,
        parse.nproc,
        "auto",
        "Workers per node: a number, one per node (2,3,3), or auto, gpu, xpu, cpu. "
        "auto is one per visible accelerator, else 1.",
        "N",
        torchrun=True,
    ),
    Setting("master_addr", _TOPOLOGY, parse.text, None, "Address of node 0.", "HOST", torchrun=True),
    Setting(
        "master_port",
        _TOPOLOGY,
        parse.whole_number(0, 65535),
        None,
        "Port on node 0 where the workers meet. 0 picks a free one, the default on one node; "
        f"{DEFAULT_MASTER_PORT} on several.",
        "PORT",
        torchrun=True,
    ),
    Setting(
        "standalone",
        _TOPOLOGY,
        parse.flag,
        False,
        "One node, whatever the environment says.",
        torchrun=True,
    ),
    Setting(
        "module",
        _WORKER,
        parse.flag,
        False,
        "SCRIPT is a module, as in python -m.",
        short="-m",
        torchrun=True,
    ),
    Setting(
        "no_python",
        _WORKER,
        parse.flag,
        False,
        "SCRIPT is a program: run it without Python.",
        torchrun=True,
    ),
    Setting("python", _WORKER, parse.text, None, "Interpreter of the workers, else ddplaunch's own.", "PATH"),
    Setting(
        "pass_local_rank",
        _WORKER,
        parse.one_of("dash", "underscore"),
        None,
        "Put --local-rank=N (dash) or --local_rank=N (underscore) before the script's arguments.",
        "dash|underscore",
    ),
    Setting(
        "use_env", _WORKER, parse.flag, False, "Ranks by environment only: always so, accepted for scripts."
    ),
    Setting(
        "env", _WORKER, parse.text, (), "Set a variable for the workers. Repeatable.", "K=V", repeatable=True
    ),
    Setting(
        "wrap",
        _WORKER,
        parse.words,
        (),
        "Run each worker under this command; {rank}, {local_rank}, {node_rank}, {world_size} are filled in.",
        "'CMD {rank}'",
    ),
    Setting("wrap_ranks", _WORKER, parse.ranks, None, "Only these ranks are wrapped.", "LIST"),
    Setting(
        "interactive_rank",
        _WORKER,
        parse.whole_number(0),
        None,
        "This rank keeps the terminal: pdb's prompt works in it. A single worker always does.",
        "R",
    ),
    Setting(
        "gpus",
        _DEVICES,
        parse.positions,
        None,
        "Use these cards only, numbered as torch numbers the visible ones; one worker each.",
        "LIST",
    ),
    Setting("gpus_per_proc", _DEVICES, parse.whole_number(1, 1024), 1, "Cards per worker (1).", "N"),
    Setting(
        "isolate_gpus",
        _DEVICES,
        parse.flag,
        False,
        "Each worker sees its own cards only, numbered from 0. Otherwise all see all.",
    ),
    Setting(
        "numa_binding",
        _DEVICES,
        parse.one_of("node", "socket", "exclusive", "core-complex"),
        None,
        "Run each worker on the CPUs near its card: its NUMA node, its socket, cores of the node that "
        "nobody else has, or one core complex.",
        "MODE",
        torchrun=True,
    ),
    Setting(
        "omp_threads",
        _DEVICES,
        parse.whole_number(1),
        None,
        "OMP_NUM_THREADS of a worker, else usable CPUs / workers.",
        "N",
    ),
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
        "Seconds between SIGTERM and SIGKILL when workers are stopped (30).",
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
    Setting("debug", _INSPECT, parse.flag, False, "Show tracebacks of ddplaunch itself."),
)
