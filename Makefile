# nightdeck: `make lab` shows it, `make test` proves it. Everything lives in .venv; nothing is installed elsewhere.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
PYTEST := $(BIN)/pytest

# Two workers: the bed's tests share one (group "bed"), the rest goes beside them.
JOBS ?= 2

.PHONY: help setup lab test test-slow test-kill engine-test fuzz fuzz-atheris check format bench clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' | column -t -s '|'

setup: $(STAMP) ## the environment in .venv, with exactly the versions of constraints.txt

$(STAMP): pyproject.toml constraints.txt
	@if command -v uv >/dev/null 2>&1; then \
	  [ -x $(BIN)/python ] || uv venv --quiet --python '>=3.11' $(VENV); \
	  uv pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[dev]'; \
	else \
	  if [ ! -x $(BIN)/python ]; then \
	    python=; \
	    for candidate in python3.13 python3.12 python3.11 python3; do \
	      $$candidate -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && python=$$candidate && break; \
	    done; \
	    [ -n "$$python" ] || { echo 'nightdeck needs Python 3.11 or newer, with its venv module (Debian: python3-venv)' >&2; exit 1; }; \
	    $$python -m venv $(VENV); \
	  fi; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'; \
	fi
	@touch $@

lab: setup ## the console on a simulated cluster of eight nodes, on this machine
	@$(BIN)/nightdeck lab

test: setup ## all tests but the slow ones and the real engine's
	$(PYTEST) -n $(JOBS) --dist loadgroup -m 'not slow and not engine' tests

test-slow: setup ## the slow tests
	$(PYTEST) -n $(JOBS) --dist loadgroup -m 'slow and not engine' tests

test-kill: setup ## kill -9 the console 200 times at random moments of lab boots (about eight minutes)
	$(PYTEST) -n0 -s -m slow --timeout 3600 tests/cli/test_killed.py

engine-test: setup ## boot a real vLLM (CPU) on the bed; the first run installs it (minutes, 4 GB)
	$(PYTEST) -m engine -s --timeout 1800 tests/testbed/engine_test.py

fuzz: setup ## the property tests with many more examples
	HYPOTHESIS_PROFILE=fuzz $(PYTEST) -n $(JOBS) --dist loadgroup -m 'not slow and not engine and not bed' --timeout 1200 tests

# Coverage-guided, beside the property tests: atheris has wheels for Linux only, so it is no dependency.
FUZZ_SECONDS ?= 120

fuzz-atheris: setup ## the log reader under atheris for FUZZ_SECONDS (Linux; the first run installs it)
	@$(BIN)/python -c 'import atheris' 2>/dev/null || { \
	  if command -v uv >/dev/null 2>&1; then uv pip install --quiet --python $(BIN)/python atheris; \
	  else $(BIN)/python -m pip install --quiet --disable-pip-version-check atheris; fi; } \
	  || { echo 'atheris does not install here: it has wheels for Linux and some versions of Python only' >&2; exit 1; }
	$(BIN)/python -m tests.enginelog.fuzz_atheris $(FUZZ_SECONDS) $(VENV)/fuzz/corpus

check: setup ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## let ruff put the files in form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## tables of launch, stop and more beside the limits of this machine
	$(BIN)/python -m tests.bench

clean: ## what tools left behind, and .venv
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
