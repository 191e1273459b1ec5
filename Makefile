# `make help` lists what there is. Everything is installed into .venv, nothing outside this folder.

PYTHON ?= python3
BIN := .venv/bin

HTTP_PORT ?= 8080
GRPC_PORT ?= 50051
ENGINE ?= embedded
MODEL ?=
SCRIPT ?=
FUZZ_SECONDS ?= 60
# Many tests wait: a few more than there are cores.
WORKERS ?= 3
# In the order of their names, the unit tests last: files of few tests take longest, and would else be the end.
# A worker that crashes ends the run: in place of a restarted one, its file's other tests are waited for
# for ever (pytest-xdist 3.8).
PARALLEL := --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0

PROTOS := $(sort $(wildcard proto/openresponses/v1/*.proto))

.DEFAULT_GOAL := help
.PHONY: help setup setup-node run test test-gpu gpu-report bench profile fuzz proto proto-check lint lock clean

help: ## List the targets and the variables they take.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16
	@echo
	@echo "Variables: HTTP_PORT=$(HTTP_PORT) GRPC_PORT=$(GRPC_PORT) ENGINE=$(ENGINE) MODEL=$(MODEL) SCRIPT=$(SCRIPT) FUZZ_SECONDS=$(FUZZ_SECONDS) WORKERS=$(WORKERS)"

setup: .venv/installed ## Install everything into .venv, pinned and hash-checked.

.venv/installed: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	touch $@

setup-node: tests/clients/node/node_modules ## Install the JavaScript clients that the tests use.

tests/clients/node/node_modules: tests/clients/node/package-lock.json
	npm ci --prefix tests/clients/node --ignore-scripts --no-audit --no-fund --loglevel error
	touch $@

run: setup ## Start the service and the gateway; Ctrl-C stops both.
	@HTTP_PORT=$(HTTP_PORT) GRPC_PORT=$(GRPC_PORT) ENGINE=$(ENGINE) MODEL=$(MODEL) SCRIPT=$(SCRIPT) gateway/run-all

test: setup setup-node proto-check lint ## Check generated code, style and types, then run every test.
	$(BIN)/pytest $(PARALLEL)

test-gpu: ## Run the engine tests on a GPU, with the packages that are installed.
	$(PYTHON) -m pytest tests/gpu -rs

gpu-report: ## Print one page about the GPU: versions, engine tests, benchmark.
	@$(PYTHON) -m tests.gpu.report

bench: setup ## Measure CPU a token, lag and memory, through gRPC and through Envoy.
	$(BIN)/pip install --quiet --disable-pip-version-check 'matplotlib>=3,<4'
	$(BIN)/python -m tests.bench.run

profile: setup ## Draw a flame graph of the server under the benchmark's load.
	$(BIN)/pip install --quiet --disable-pip-version-check 'py-spy>=0.4'
	$(BIN)/python -m tests.bench.profile

fuzz: setup ## Fuzz the splitter for FUZZ_SECONDS, guided by coverage.
	$(BIN)/pip install --quiet --disable-pip-version-check 'atheris>=3,<4'
	$(BIN)/python -m tests.fuzz.fuzz_splitter -max_total_time=$(FUZZ_SECONDS)

proto: setup ## Lint proto/ and generate gen/ from it.
	PATH="$(CURDIR)/$(BIN):$$PATH" proto/generate

proto-check: proto ## Fail when gen/ differs from what proto/ gives.
	@test -z "$$(git status --porcelain -- gen)" || { git status --short -- gen; \
	  echo "gen/ is not what proto/ generates: commit what 'make proto' wrote."; exit 1; }

lint: setup ## Style and types.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

lock: ## Pin the newest versions into requirements.lock (needs uv).
	uv pip compile --universal --python-version 3.11 --generate-hashes --all-extras --upgrade \
	  --no-emit-index-url --no-header --no-annotate --quiet pyproject.toml -o requirements.lock

clean: ## Remove what the targets above installed and made.
	rm -rf .venv .build .mypy_cache .pytest_cache .ruff_cache .hypothesis tests/clients/node/node_modules
