# The commands of this repository. Each is a line that a person could type; `make` lists them.
# All that they need is Python 3.11 or newer, make, and a package index.

PYTHON ?= $(shell for one in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$one -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$one && break; done)
BIN := .venv/bin
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run test test-all check bench docs lock

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: .venv/ready ## run everything here, on a Postgres of its own (ARGS="--no-sample --port 8080")
	$(BIN)/procession up $(ARGS)

test: .venv/ready ## test what needs no long waits: engine, database, API, calls that leave
	$(BIN)/pytest -n 2 -m "not slow" --ignore tests/process --ignore tests/migration $(ARGS)

test-all: .venv/ready ## test all of it, with processes that are killed and databases that go away
	$(BIN)/pytest -n 2 $(ARGS)

check: .venv/ready ## check style, types, imports and dependencies
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/deptry procession --no-ansi

bench: .venv/ready ## measure, against peers on the same database
	$(BIN)/python bench/run.py $(ARGS)

docs: .venv/ready ## write anew what is generated of the documents, and build them as a site, in site/
	$(BIN)/python -m procession.app.reference docs/settings.md
	$(BIN)/python -m procession.app.routes_page docs/reference/api.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lock: .venv/ready ## resolve the dependencies anew and write down what was found
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-emit-find-links --no-header \
		--extra local --extra tracing --group dev pyproject.toml --output-file requirements.lock

# The environment, made anew when what it holds has changed.
.venv/ready: requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
