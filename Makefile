# Two commands are all anybody needs: `make demo` and `make test`. Each does its own set-up.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
BIN := .venv/bin
DEMO := .venv/.demo
ENGINE := .venv/.engine
INSTALLED := .venv/.installed
# Tests wait a good deal: for timeouts, for processes that start. Twice as many processes as most machines for CI have cores
# fill that time. Some environments set PYTHONDONTWRITEBYTECODE; then each of them would compile every test. Threads of linear
# algebra that wait for each other spin: on a busy machine a test took 25 CPU seconds instead of 3.
PROCESSES ?= 4
MINUTES ?= 60
SEED ?= 1
SEEDS ?= 20
PYTEST := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest
SHARED := $(PYTEST) -n $(PROCESSES) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help demo engine nethack dev test compiled-tests test-all test-fast picture pictures test-kills soak lint format docs bench clean setup lock

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(DEMO): requirements.lock pyproject.toml deploy/environment.py
	@test -n "$(PYTHON)" || { echo "Ratchet needs Python 3.11 or newer on the PATH (or make PYTHON=/path/to/python3)"; exit 1; }
	@echo "Installing what the demo needs (about a minute, once) …"
	@$(PYTHON) deploy/environment.py demo
	@touch $@

$(ENGINE): $(DEMO)
	@echo "Installing all that runs need, and the page …"
	@$(BIN)/python deploy/environment.py dev
	@touch $@

$(INSTALLED): $(DEMO)
	@echo "Installing what tests and checks need …"
	@$(BIN)/python deploy/environment.py all
	@touch $(ENGINE) $@

engine: $(ENGINE) ## Install all that runs need, without tools for development

setup: $(INSTALLED) ## Install everything into .venv (every other target does what it needs itself)

demo: $(DEMO) ## Optimize the prompt of an example on the embedded stack, against a simulated model
	@$(BIN)/ratchet demo

nethack: $(INSTALLED) ## Evolve the policy of a NetHack player (Linux on x86-64; up to ten minutes)
	@$(BIN)/ratchet prompts import examples/nethack/prompt_v1.0.0.yaml --name games/nethack
	@$(BIN)/ratchet run examples/nethack/spec.yaml

dev: $(ENGINE) ## Run the embedded stack with the Temporal UI and a worker, until Ctrl-C
	@$(BIN)/ratchet dev

test: $(INSTALLED) ## Run the tests, through the real engines
	@$(SHARED) -m "not long"

compiled-tests: $(INSTALLED) ## Compile the tests and all that they import, by one process
	@$(PYTEST) --collect-only -qq -p no:cacheprovider >/dev/null

test-all: $(INSTALLED) ## Run every test, with the sweeps that `make test` leaves out (tests/long_tests.txt)
	@$(SHARED)

test-fast: $(INSTALLED) ## Run the tests that start no servers and no processes, in about a minute
	@$(SHARED) -m "not slow and not long"

picture: $(INSTALLED) ## Take the picture of the page in the README anew, from a real run (needs Chromium)
	@RATCHET_PICTURE=docs/page.png $(PYTEST) -q tests/clients/page/test_picture.py

pictures: $(INSTALLED) ## Take pictures of every main screen for docs/pictures, and look at all sizes for what does not fit (needs Chromium)
	@RATCHET_PICTURES=docs/pictures $(PYTEST) -q tests/clients/page/test_picture.py -k every_screen

test-kills: $(INSTALLED) ## Kill worker, server and database in runs of every design (SEEDS=20; one takes about ten minutes)
	@RATCHET_KILL_SEEDS=$(SEEDS) $(SHARED) tests/system/durability -p no:cacheprovider

soak: $(INSTALLED) ## Run everything under faults of every kind (MINUTES=60 SEED=1), and judge what is left
	@$(BIN)/python -m tests.system.soak --minutes $(MINUTES) --seed $(SEED)

lint: $(INSTALLED) ## Check style, types and the walls between the rooms
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(INSTALLED) ## Format the code
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

docs: $(INSTALLED) ## Write the reference pages in docs/reference anew, from the code
	@$(BIN)/python -m docs.generate

bench: $(INSTALLED) ## Run the quick benchmarks; fails when a target is missed
	@$(BIN)/python -m benchmarks --quick

lock: $(INSTALLED) ## Pin the dependencies anew, with hashes (needs uv)
	@uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header --output-file requirements.lock

clean: ## Remove the virtual environment and caches; never the runs in .ratchet
	@rm -rf .venv .bench .artifacts build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './.ratchet/*' -prune -exec rm -rf {} +
