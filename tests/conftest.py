pytest_plugins = ["fix_api", "fix_postgres"]
