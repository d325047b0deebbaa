"""Every option once: its name, how it is read, its default and its line in --help. [pure]

The command line, the environment (DDPLAUNCH_<NAME>, PET_<NAME>) and --help are all made from this table.
"""

from ddplaunch.config import parse
from ddplaunch.config.conduct import CONDUCT
from ddplaunch.config.setting import Setting

DEFAULT_MASTER_PORT = 29500  # torch's


_TOPOLOGY = "Topology"
_WORKER = "Worker"
_DEVICES = "Devices and cores"

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "nnodes",
        _TOPOLOGY,
        parse.nodes,
        1,
        "Number of nodes (machines); MIN:MAX goes on without lost nodes, and takes in new ones.",
        "N|MIN:MAX",
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
    Setting("master_addr", _TOPOLOGY, parse.address, None, "Address of node 0.", "HOST", torchrun=True),
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
        "preload",
        _WORKER,
        parse.modules,
        (),
        "Import these once per node and fork the workers from there: torch, or torch,module,...",
        "MODULES",
    ),
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
    *CONDUCT,
)
