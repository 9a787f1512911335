pytest_plugins = [
    "fix_api",
    "fix_hypothesis",
    "fix_postgres",
    "fix_queue",
    "fix_receiver",
    "fix_runs",
]
