# outlast: `make demo` shows it, `make test` checks it, `make help` lists the rest.
SHELL := /bin/bash
PY := .venv/bin/python
export PATH := $(CURDIR)/.venv/bin:$(PATH)

# How the lab runs: SLURM=24.11 takes Debian 13's Slurm, LAB=pbs this machine's PBS, LAB_FLAGS are pytest's (scenarios wait more than they compute).
SLURM ?= system
LAB_FLAGS ?= -n 6 --dist loadgroup --timeout 900
JOBS ?= $(shell nproc)

SHELL_FILES = $(shell tests/shell-files)

.PHONY: help setup demo test test-py test-bash test-libraries test-lab lint bench lab lab-down golden soak

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv from requirements.lock (once; again when that changes)
	@bin/setup

demo: setup ## a whole run on this machine: lose a rank, run out of time, resume, hang, finish
	@bin/outlast demo

test: test-py test-bash test-libraries test-lab ## all tests; as root also those with a real Slurm and our stand-in for PBS

# One more than there are cores: the demo waits.
test-py: setup
	$(PY) -m pytest tests/py -n $$(($(JOBS) + 1))

# Twice as many as there are cores: they wait more than they compute.
test-bash: setup
	@printf '%s\0' tests/bash/*.bats tests/driver/*.bats | xargs -0 -P $$((2 * $(JOBS))) -n 1 bats --formatter tap

test-libraries: setup ## with torch, transformers and Lightning (1 GB, installed once)
	$(PY) -m pytest tests/libraries --timeout 900

test-lab: setup ## the lab's alone; LAB=pbs: with a PBS that is in /opt/pbs; SLURM=24.11: with Debian 13's Slurm
	@tests/lab/run $(LAB_FLAGS)

lint: setup ## shellcheck, shfmt, ruff, mypy
	shellcheck -x -P SCRIPTDIR $(SHELL_FILES)
	shfmt -i 2 -ci -d $(SHELL_FILES)
	ruff check .
	ruff format --check .
	mypy

lab: setup ## start a Slurm of several hosts on this machine (root); LAB=pbs: a PBS that is in /opt/pbs
	tests/lab/lab up $(if $(filter pbs,$(LAB)),--scheduler pbs)

lab-down: ## end it; nothing is left behind
	tests/lab/lab down

golden: setup ## write tests/golden, docs/scenarios.md and docs/crash-patterns.md again (read the diff)
	$(PY) tests/golden/write.py
	$(PY) tests/py/crash_page.py

soak: setup ## the sidecar through 500 kills; the racing scenarios of the lab, 20 times each (root)
	OUTLAST_SOAK_STORIES=50 $(PY) -m pytest tests/py/test_sidecar_soak.py -n $(JOBS) --timeout 600
	$(PY) -m pytest tests/lab -m race --count 20 $(LAB_FLAGS)

bench: setup ## what outlast costs: docs/benchmarks.md
	$(PY) tests/bench/run.py
