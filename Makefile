# Two commands set everything up: `make demo` runs the main job, `make test` passes the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
GOAL ?= at 4 concurrent requests, double the output tokens per second without changing the answers

.PHONY: help demo test test-runs test-kill test-engine test-experiments harness-tests bench-harness check lint types contracts deps style format features bench-judge bench-load aa-demo clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

$(VENV)/core: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "infra-agent needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/dev: $(VENV)/core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: $(VENV)/core ## Tune a real inference server on this machine (about 10 minutes after installation)
	$(BIN)/infra-agent run --stack demo --goal "$(GOAL)"

test: $(VENV)/dev ## Run the tests, the real engine among them (installs the demo stack once)
	$(BIN)/python -m pytest -m 'not engine and not slow and not runs' -n 2
	$(BIN)/python -m pytest -m 'engine and not slow'

test-runs: $(VENV)/dev ## Whole runs on the simulated engine: faults, kills, approvals, code, secrets (about 12 minutes)
	$(BIN)/python -m pytest -m 'runs and not slow' -n 2 --dist worksteal

test-kill: $(VENV)/dev ## Kill a run at every event, resume it, and compare it with one that was not killed
	PYTHONPATH=tests $(BIN)/python -m simulated.boundaries

harness-tests: $(VENV)/dev ## The requirements of the harness, one line each, with what their tests said
	$(BIN)/python scripts/requirements.py

bench-harness: $(VENV)/dev ## What the harness itself costs (RUN=runs/ID: in that run)
	$(BIN)/python scripts/bench_harness.py $(RUN)

test-engine: $(VENV)/dev ## The whole main job on the real engine, killed in the middle of a proof
	$(BIN)/python -m pytest -m 'engine and slow'

test-experiments: $(VENV)/dev ## Whole runs on stacks that are not servers: faults, a red herring, an interrupt, both labs
	$(BIN)/python -m pytest -m 'slow or not slow' tests/experiments

check: lint types contracts deps style ## Lint, types, import contracts, dependencies, size budgets

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev
	$(BIN)/mypy

contracts: $(VENV)/dev
	$(BIN)/lint-imports

deps: $(VENV)/dev
	$(BIN)/deptry infra_agent probes

style: $(VENV)/dev
	$(BIN)/python scripts/style.py

format: $(VENV)/dev ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

features: $(VENV)/dev ## Run the scoreboard's commands and write docs/features.md
	$(BIN)/python scripts/features.py

bench-judge: $(VENV)/core ## Simulated error rates and power of the judge beside other rules (about 2 minutes)
	$(BIN)/python scripts/bench_judge.py

aa-demo: $(VENV)/core ## Twenty A/A comparisons on the demo's real engine (at most 35 minutes; goes on where it was stopped)
	$(BIN)/python scripts/aa_demo.py

bench-load: $(VENV)/dev ## This load client beside vllm bench serve, GuideLLM and AIPerf (6 GB of environments on first use)
	$(BIN)/python -m scripts.bench_load

clean: ## Remove environments and caches (runs are kept)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dist
