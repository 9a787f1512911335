pytest_plugins = ["fix_api", "fix_postgres", "fix_queue", "fix_runs"]
