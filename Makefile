# Two commands set everything up: `make demo` runs the main job, `make test` passes the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
GOAL ?= at 4 concurrent requests, double the output tokens per second without changing the answers

.PHONY: help demo test test-runs test-kill test-engine harness-tests bench-harness brain-tests bench-brain lab-slow-server check lint types contracts deps style format features bench-judge bench-load aa-demo case-3 kernel-tests static-tests lab-kv case-2 test-lab-kv bench-probe-overhead bench-trace events-tests trace-overhead report-tests tamper-table test-experiments case-1 attacks operators clean

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

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
	$(BIN)/python -m pytest -m 'not engine and not slow and not runs and not kernels and not lab_kv' -n 2
	$(BIN)/python -m pytest -m 'engine and not slow'

test-runs: $(VENV)/dev ## The longer tests: whole runs on a simulated engine, orphans, limits, attacks (about 20 minutes)
	$(BIN)/python -m pytest -m 'runs and not slow and not engine and not kernels and not lab_kv' -n 2 --dist worksteal

test-kill: $(VENV)/dev ## Kill a run at every event, resume it, and compare it with one that was not killed
	PYTHONPATH=tests $(BIN)/python -m simulated.boundaries

harness-tests: $(VENV)/dev ## The requirements of the harness, one line each, with what their tests said
	$(BIN)/python scripts/requirements.py

bench-harness: $(VENV)/dev ## What the harness itself costs (RUN=runs/ID: in that run)
	$(BIN)/python scripts/bench_harness.py $(RUN)

attacks: $(VENV)/dev ## Every exploit and every honest twin in front of the numeric judge (about 2 minutes)
	$(BIN)/python tests/attacks/suite.py

operators: $(VENV)/dev ## Mutation test of the numeric oracle on known operators, with the tolerances that are weak
	$(BIN)/python -m probes.numeric.operators

test-engine: $(VENV)/dev ## The whole main job on the real engine, killed in the middle of a proof
	$(BIN)/python -m pytest -m 'engine and slow'

brain-tests: $(VENV)/dev ## Every way in which a model misbehaves, whole runs of a scripted model, the MCP server
	$(BIN)/python -m pytest -v -p no:cacheprovider -m 'not engine' tests/agent/llm tests/mcp_server

bench-brain: $(VENV)/dev ## Tokens and time of the LLM brain outside the model, on a recorded demo run
	$(BIN)/python scripts/bench_brain.py

lab-slow-server: $(VENV)/dev ## A real server with two defects, found and patched by a scripted model (minutes)
	$(BIN)/python -m pytest -v -p no:cacheprovider -m 'engine and slow' tests/labs

report-tests: $(VENV)/dev ## The report in headless Chromium: layout, pictures (runs/report-tests/), network, axe
	$(BIN)/python -m pytest -m 'browser' tests/publish -q -s

tamper-table: $(VENV)/dev ## Every way to tamper with an approval, and what refuses it
	PYTHONPATH=tests $(BIN)/python -m review.tamper_table

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

case-3: $(VENV)/core ## A decode kernel that repeats its set-up: found, merged, proved equal, gain predicted (no GPU)
	PYTHONPATH=tests $(BIN)/python -m labs.kda_decode

static-tests: $(VENV)/dev ## Twenty kernels: the static probe's figures beside those of ptxas and cuobjdump
	PYTHONPATH=tests $(BIN)/python -m labs.static_table

kernel-tests: $(VENV)/dev ## Tests of the kernel probes on real kernels (prepares torch and triton once)
	$(BIN)/python -m pytest -m kernels

$(VENV)/lab-kv: tests/labs/kv_transfer/requirements.txt $(VENV)/dev
	@command -v g++ >/dev/null || { echo "the lab needs g++: apt-get install g++" >&2; exit 2; }
	@echo "lab: about 200 MB of packages (torch $(shell sed -n 's/^torch==//p' $<), numpy, pybind11, gilknocker), 1 GB installed" >&2
	$(PYTHON) -m venv $(VENV)/lab
	$(VENV)/lab/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

lab-kv: $(VENV)/lab-kv ## Prepare the KV transfer lab's own environment

case-2: $(VENV)/lab-kv ## A native call that keeps the GIL starves the KV transfer: found, patched, proved (5 minutes)
	$(BIN)/python tests/labs/kv_transfer/case.py --python $(VENV)/lab/bin/python

test-lab-kv: $(VENV)/lab-kv ## The tests of the KV transfer lab
	INFRA_AGENT_LAB_KV=$(abspath $(VENV)/lab/bin/python) $(BIN)/python -m pytest -m 'lab_kv' tests/labs tests/probes

bench-probe-overhead: $(VENV)/lab-kv ## What an attached GIL probe costs the program that it looks at
	$(BIN)/python tests/labs/kv_transfer/overhead.py --python $(VENV)/lab/bin/python

bench-trace: $(VENV)/dev ## Read a trace of 1,000,000 events beside HolisticTraceAnalysis (600 MB on first use)
	$(BIN)/python -m scripts.bench_trace

events-tests: $(VENV)/dev ## Four made situations on real engines: the demo stack and vLLM's CPU build (3.5 GB on first use)
	$(BIN)/python -m scripts.events_tests

trace-overhead: $(VENV)/dev ## What an attached py-spy costs the demo stack's throughput
	$(BIN)/python scripts/trace_overhead.py

case-1: $(VENV)/dev ## A numerical defect in a real kernel: how it grows, the lines that cause it, the patch (450 MB once, then minutes)
	PYTHONPATH=.:tests $(BIN)/python -m labs.kda_context_parallel.case

clean: ## Remove environments and caches (runs are kept)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dist
