# Assay. `make help` lists what there is.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench results up down lock schemas clean

help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Install everything from the lock of pins with hashes into .venv

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Assay needs Python 3.11 or newer; found $$($(PYTHON) -V)." >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "No venv module: apt-get install python3-venv" >&2; exit 2; }
	@echo "Installing from requirements.lock into $(VENV) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index -e .
	@touch $@

demo: setup ## One goal, five services, a proven champion, an audited log: under three minutes
	@$(BIN)/assay demo

up: setup ## Start the factory in the background (embedded NATS and Postgres)
	@$(BIN)/assay up

down: ## Stop it
	@$(BIN)/assay down

test: setup ## Every test: real NATS, real Postgres, real compilers, real processes
	@failed=0; \
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not alone" || failed=1; \
	$(BIN)/python -m pytest -m alone || failed=1; \
	exit $$failed

check: setup ## ruff, format, mypy strict, import contracts, fast tests
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest -m "not slow" tests/pure tests/architecture tests/contract

bench: setup ## Figures, measured side by side on this machine
	@$(BIN)/python -m benchmarks

results: setup ## docs/results.md from real goals: ONLY=softmax for one, AGAIN=1 for what is recorded
	@$(BIN)/python -m benchmarks.make_results $(addprefix --only ,$(ONLY)) $(if $(AGAIN),--again)

schemas: setup ## Regenerate the checked-in JSON Schema
	@$(BIN)/python -m schemas.json_schema

lock: ## Re-pin requirements.lock (needs uv)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --extra dev pyproject.toml -o requirements.lock

clean: ## Remove the virtual environment and demo data
	rm -rf $(VENV) .assay
