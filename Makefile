# Assay. `make help` lists what there is.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all zoo zoo-mutants zoo-honest soak check lint fast bench results up down lock schemas clean compose-env compose-test wheels

help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Install everything from the lock of pins with hashes into .venv

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Assay needs Python 3.11 or newer; found $$($(PYTHON) -V)." >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "No venv module: apt-get install python3-venv" >&2; exit 2; }
	@echo "Installing from requirements.lock into $(VENV) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index -e .
	@touch $@

demo: setup ## One goal, five services, a proven champion, an audited log: about three minutes
	@$(BIN)/assay demo

up: setup ## Start the factory in the background (embedded NATS and Postgres)
	@$(BIN)/assay up

down: ## Stop it
	@$(BIN)/assay down

test: fast ## The tests: real NATS, real Postgres, real compilers, real processes (a quarter of an hour on two cores)
	@failed=0; \
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not fast and not alone and not long" || failed=1; \
	$(BIN)/python -m pytest -m "alone and not long" || failed=1; \
	exit $$failed

test-all: test ## And the longest: whole factories for minutes, what a command of its own repeats
	@$(BIN)/python -m pytest -m long

zoo: setup ## Every inmate of the zoo under every isolation that works here, and both rates
	@$(BIN)/python -m tests.zoo --isolation all

zoo-mutants: setup ## Each check switched off: some inmate must get another verdict
	@$(BIN)/python -m tests.zoo --mutants

zoo-honest: setup ## Random kernels of every design space, judged as finalists: none may be refused. EACH=40
	@$(BIN)/python -m tests.zoo.honest $(if $(EACH),--each $(EACH))

soak: setup ## The zoo ten times under every isolation, honest kernels, A/A under load, power, the winner's curse: hours
	@for round in 1 2 3 4 5 6 7 8 9 10; do \
	  echo "zoo, round $$round of 10" >&2; $(BIN)/python -m tests.zoo --isolation all || exit 1; \
	done
	@$(BIN)/python -m tests.zoo.honest
	@$(BIN)/python -m benchmarks a_a power winners_curse

check: lint fast ## ruff, format, mypy strict, import contracts, fast tests

lint: setup ## All of check but the tests
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

fast: setup ## The fast tests: a minute and a half on two cores
	@$(BIN)/python -m pytest -n auto -m fast tests/pure tests/architecture tests/contract

bench: setup ## Figures, measured side by side on this machine
	@$(BIN)/python -m benchmarks

results: setup ## docs/results.md from real goals: ONLY=softmax for one, AGAIN=1 for what is recorded
	@$(BIN)/python -m benchmarks.make_results $(addprefix --only ,$(ONLY)) $(if $(AGAIN),--again)

schemas: setup ## Regenerate the checked-in JSON Schema
	@$(BIN)/python -m schemas.json_schema

wheels: setup ## The packages of the container images into wheels: then no image build needs a network
	@mkdir -p wheels
	@$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes -r infra/docker/requirements.lock -d wheels

compose-env: ## Write .env with fresh secrets for docker-compose.yml; one that exists stays
	@$(PYTHON) infra/compose/fresh_env.py

compose-test: wheels ## docker-compose.yml for real: images, scaling, a killed container, a champion (a quarter of an hour)
	@$(if $(REQUIRED),ASSAY_REQUIRE_COMPOSE=1) $(BIN)/python -m pytest tests/compose

lock: ## Re-pin both locks (needs uv)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --extra dev pyproject.toml -o requirements.lock
	$(PYTHON) infra/docker/narrow_lock.py

clean: ## Remove the virtual environment and demo data
	rm -rf $(VENV) .assay
