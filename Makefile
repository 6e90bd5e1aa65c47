# Two commands do all the set-up: `make demo` and `make test`. `make help` lists the rest.
# Everything is installed into .venv from pinned and hashed files; second runs reuse it.

PYTHON_CANDIDATES := python3.11 python3.12 python3.13 python3.14 python3
PYTHON ?= $(shell for p in $(PYTHON_CANDIDATES); do \
    $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
WORKERS ?= auto
# Tests with real processes wait more than they work: on two cores four are busy for half the time.
LIVE_WORKERS ?= 6
# What `make bench` compares with: another checkout, in which `make setup-dev` has run, and other
# programs, as benchmarks/peers/README.md says.
BEFORE ?=
PEERS ?=
# Which seeds `make chaos` runs, and how many at a time.
SEEDS ?= 1-10
CHAOS_WORKERS ?= 4
# xdist would start one worker a core even on a large server; past eight they only wait. A file stays
# with one worker, so that what it builds for all of its tests is built once.
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 8 --dist loadfile
UV := build/lock/bin/uv
TORCH ?= torch==2.13.0
# CI sets --must-run: a machine on which not one of the selected tests can run is no green one.
MUST_RUN ?=

# Some environments forbid Python to keep bytecode: each of a thousand processes would compile anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
# pytest uses the cores already; and the package is installed after its build backend.
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo setup setup-dev test check format format-check lint types imports docs examples \
        bench fidelity live chaos trainers dist requirements clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup ## install, run the demonstration, and report on it in build/demo
	@mkdir -p build
	$(BIN)/shunter demo --folder build/demo

test: setup-dev ## install and run the tests; THOROUGH=1: with longer searches, and with all seeds
	@echo "running the tests, a dot each; on two cores it takes some minutes, the first of which reads them"
	SHUNTER_THOROUGH=$(THOROUGH) $(PYTEST) -m "not fidelity and not live" $(addprefix --ignore=tests/,examples fidelity live)

check: format-check lint types imports test docs examples ## format, lint, types, imports, tests, docs, examples: the first part of CI

format: setup-dev ## rewrite the files as the formatter wants them
	$(BIN)/ruff format
	$(BIN)/ruff check --fix-only --quiet

format-check: setup-dev
	@echo "looking whether all files are written as the formatter wants them"
	$(BIN)/ruff format --check

lint: setup-dev
	@echo "looking for what the linter refuses"
	$(BIN)/ruff check

types: setup-dev
	@echo "checking the types; the first time it takes some minutes"
	$(BIN)/mypy --num-workers auto

imports: setup-dev
	@echo "checking which package imports which"
	$(BIN)/lint-imports --no-logo
	$(BIN)/lint-imports --no-logo --config peers/pyproject.toml

docs: setup-dev ## build the docs into build/docs; a warning is an error
	@echo "building the docs into build/docs; nothing is printed unless something is wrong"
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky docs build/docs

examples: setup-dev ## run every example against its expected output
	@echo "running every example, a dot each"
	$(PYTEST) tests/examples

bench: setup-dev ## measure speed against budgets; BEFORE=FOLDER PEERS=1: as ratios to a checkout, to other programs
	$(BIN)/python -m $(if $(BEFORE)$(PEERS),benchmarks.ratios $(if $(BEFORE),--before $(BEFORE)) $(if $(PEERS),--peers),benchmarks.run)

fidelity: setup-dev ## compare with papers and their public simulators; THOROUGH=1: in all ways
	@echo "comparing with papers and their public simulators, a dot each"
	SHUNTER_THOROUGH=$(THOROUGH) OPENBLAS_CORETYPE=Haswell $(BIN)/python -m tests.marked fidelity $(MUST_RUN) -n $(WORKERS) --maxprocesses 8

live: setup-dev $(VENV)/.train ## tests with real processes, some of which train; THOROUGH=1: all of them
	@echo "running the tests with real processes, a dot each; on two cores it takes a quarter of an hour"
	SHUNTER_THOROUGH=$(THOROUGH) $(BIN)/python -m tests.marked live --alone $(MUST_RUN) -n $(LIVE_WORKERS) --dist loadgroup

chaos: setup-dev ## ill-use a cluster over SSH, by seeds: make chaos SEEDS=1-10
	@echo "ill-using clusters over SSH, a line each"
	$(BIN)/python -m tests.chaos $(SEEDS) -j $(CHAOS_WORKERS)

trainers: setup-dev ## check real training libraries, each in its own environment: make trainers ONLY=keras-jax
	@$(BIN)/python -m tests.trainers $(ONLY)
	@$(BIN)/python -m docs.trainers_page

# Four distributions, each by the pinned backend and without a network. Tests hold that their bytes
# depend on nothing but the files and SOURCE_DATE_EPOCH, where that is set.
dist: setup ## build wheels and sdists of shunter and its plug-ins into build/dist
	@rm -rf build/dist
	@set -e; export HATCH_QUIET=1; for folder in . train peers papers; do \
	    (cd $$folder && "$(CURDIR)/$(BIN)/python" -m hatchling build -d "$(CURDIR)/build/dist"); \
	done
	@ls build/dist/*

setup: $(VENV)/.run $(VENV)/.package ## create .venv and install what a run needs

setup-dev: $(VENV)/.dev $(VENV)/.package $(VENV)/.plugins ## create .venv and install the tools as well

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer found (looked for $(PYTHON_CANDIDATES));" \
	    "install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo \
	    "error: $(PYTHON) is not a Python 3.11 or newer; name another: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "error: $(PYTHON) cannot create" \
	    "environments with pip; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "creating an environment in $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.run: requirements/run.txt | $(BIN)/python
	@echo "installing what a run of Shunter needs, $$(grep -c '^[a-z].*==' $<) packages;" \
	    "the first time they are downloaded, which takes a minute or so"
	@$(PIP) install --quiet --require-hashes -r $<
	@touch $@

$(VENV)/.dev: requirements/dev.txt | $(BIN)/python
	@echo "installing the tools of development and tests, $$(grep -c '^[a-z].*==' $<) packages;" \
	    "the first time they are downloaded, which takes some minutes"
	@$(PIP) install --quiet --require-hashes -r $<
	@touch $@

# Only live tests train with it. It is large, and which build fits depends on the machine: another
# one by `make live TORCH=...`, and pip's own settings say where from.
$(VENV)/.torch: | $(VENV)/.dev
	@echo "installing $(TORCH), with which live tests train: the largest package"
	@$(PIP) install --quiet $(TORCH) || { echo "error: pip could not install $(TORCH), with which the" \
	    "live tests train; name a build that pip finds: make live TORCH=torch==VERSION" >&2; exit 1; }
	@touch $@

# The trainers that the SDK has adapters for; they take the PyTorch that is there.
$(VENV)/.train: requirements/train.txt | $(VENV)/.torch
	@echo "installing the trainers that live tests train with, $$(grep -c '^[a-z].*==' $<) packages"
	@$(PIP) install --quiet --no-deps --require-hashes -r $<
	@touch $@

# The build backend comes from the hashed file, so this step reaches no network.
$(VENV)/.package: pyproject.toml shunter/__init__.py | $(BIN)/python
	@test -e $(VENV)/.run -o -e $(VENV)/.dev
	@echo "installing Shunter itself from this folder"
	@$(PIP) install --quiet --no-deps --no-build-isolation --no-index --editable .
	@touch $@

# Only comparisons and tests play other simulators and run papers: `make setup` installs none of it.
$(VENV)/.plugins: peers/pyproject.toml papers/pyproject.toml $(VENV)/.package
	@echo "installing the plug-ins: other simulators from peers/, comparisons of papers from papers/"
	@$(PIP) install --quiet --no-deps --no-build-isolation --no-index --editable peers --editable papers
	@touch $@

# Resolved for all supported Pythons and platforms at once, from the ordinary public index, whatever
# the machine's own pip and uv settings say; no address ends up in the files.
requirements: $(UV) ## pin the newest versions again
	requirements/lock $(UV)

$(UV): requirements/lock.txt | $(BIN)/python
	$(BIN)/python -m venv build/lock
	build/lock/bin/python -m pip install --quiet --require-hashes -r $<

clean: ## remove .venv and everything built
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
