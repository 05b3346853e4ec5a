# Two commands: `make demo` builds and shows the bundled demo, `make test` runs every test.
# Needs git, make and Python 3.11 or newer with venv; all else goes into .venv, nothing into the system's Python.

# the first of these that runs and is new enough; another: make PYTHON=/path/to/python test
PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13 python3.14 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
STORE ?= demo.zarr
# compiled modules are kept: without them every start of Python compiles its libraries anew
unexport PYTHONDONTWRITEBYTECODE
CODE := $(wildcard hfprep tests manifests benchmarks)

.PHONY: demo test check lint format clean help

help:
	@echo 'make demo    build manifests/demo.csv into $(STORE) and inspect it (no torch)'
	@echo 'make test    run all tests (installs torch)'
	@echo 'make check   format, lint, strict types, import rules, all tests'
	@echo 'make clean   remove $(VENV), $(STORE) and caches'

demo: $(VENV)/.installed
	$(BIN)/hfprep build manifests/demo.csv -o $(STORE) --overwrite
	$(BIN)/hfprep inspect $(STORE)

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n auto --dist loadscope

check: lint test

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-dev
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

clean:
	rm -rf $(VENV) $(STORE) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo 'hfprep needs Python 3.11 or newer; none found: make PYTHON=/path/to/python3.11 ...' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'hfprep needs Python 3.11 or newer; $(PYTHON) is' "$$($(PYTHON) --version 2>&1)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo '$(PYTHON) has no venv; on Debian and Ubuntu: apt install python3-venv' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# a stamp is older than pyproject.toml when the dependencies may have changed
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(PIP) install --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(PIP) install --editable '.[dev]'
	@touch $@ $(VENV)/.installed
