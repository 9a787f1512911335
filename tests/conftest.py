pytest_plugins = [
    "fix_actions",
    "fix_api",
    "fix_clock",
    "fix_hypothesis",
    "fix_ledger",
    "fix_postgres",
    "fix_process",
    "fix_proxy",
    "fix_queue",
    "fix_races",
    "fix_receiver",
    "fix_relay",
    "fix_remote",
    "fix_requests",
    "fix_runs",
    "fix_traces",
    "fix_worker",
    "fix_issuer",
    "fix_metrics",  # imports fix_queue
    "fix_chaos",  # imports the ones above
]
