pytest_plugins = ["fix_postgres"]
