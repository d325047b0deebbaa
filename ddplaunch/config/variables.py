"""Variables that are the launcher's own. [pure]"""

# Set by the launcher for its workers, not read as options.
NOT_OPTIONS = frozenset(
    {
        "DDPLAUNCH_RUN_ID",
        "DDPLAUNCH_LAUNCH_ID",
        "DDPLAUNCH_ATTEMPT",
        "DDPLAUNCH_CALL",
        "DDPLAUNCH_DEVICE_IDS",
        "DDPLAUNCH_TOKEN",
    }
)

# What makes a worker this worker: a stale one in the launcher's environment is worth a word.
RANK_VARIABLES = frozenset(
    {
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "NODE_RANK",
        "GROUP_RANK",
        "GROUP_WORLD_SIZE",
        "ROLE_RANK",
        "ROLE_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "DDPLAUNCH_RUN_ID",
        "DDPLAUNCH_LAUNCH_ID",
        "DDPLAUNCH_ATTEMPT",
    }
)

# --env must not take the launcher's own promises away from a worker.
RESERVED = RANK_VARIABLES | {
    "ROLE_NAME",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_ERROR_FILE",
}
