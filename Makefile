# Everything a checkout needs: `make demo`, `make test`, or any target below.
# The first run makes .venv and installs into it; stamps in .make/ keep later runs quick.
# Choose another interpreter with `make PYTHON=/path/to/python test`.

PYTHON ?=
VENV := .venv
OLDEST_VENV := .venv-oldest
BIN := $(VENV)/bin
PIP_FLAGS := --quiet --disable-pip-version-check
GROUPS := demo bench test lint
PYTEST := python -m pytest -n 2

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help setup demo test test-oldest lint format types layers bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile

setup: .make/dev ## make .venv with everything that a developer needs

demo: .make/demo ## manifests over real netCDF files, opened with zarr and xarray
	$(BIN)/python -m demo

test: .make/test ## the test suite, with coverage
	$(BIN)/$(PYTEST) --cov --cov-report=term

test-oldest: .make/oldest ## the test suite on the oldest dependencies that pyproject.toml allows
	@$(OLDEST_VENV)/bin/python -c 'import zarr; print("zarr", zarr.__version__)'
	$(OLDEST_VENV)/bin/$(PYTEST) -W default tests

lint: .make/lint ## ruff: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: .make/lint ## let ruff repair what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: .make/lint ## mypy and pyright, both strict
	$(BIN)/mypy
	$(BIN)/pyright

layers: .make/lint ## import-linter: imports go downwards only
	$(BIN)/lint-imports --no-cache

bench: .make/bench ## compare with zarr's own stores; ARGS=--quick for a quick look
	$(BIN)/python -m benchmarks $(ARGS)

clean: ## remove everything that was made
	rm -rf $(VENV) $(OLDEST_VENV) .make build dist demo-output bench-output htmlcov .coverage .coverage.* \
		.pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ---------------------------------------------------------------- environments

# The first that is Python >= 3.12 and can make environments.
define FIND_PYTHON
python=; wanted=$$(head -n 1 .python-version 2>/dev/null || true); \
for candidate in $(PYTHON) "$${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$wanted/bin/python" \
		python3.13 python3.12 python3 python python3.14; do \
	if "$$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 12))' \
			>/dev/null 2>&1; then python=$$candidate; break; fi; \
done; \
if [ -z "$$python" ]; then \
	echo "error: Python 3.12 or later, with its venv module, was not found." >&2; \
	echo "Install it (for example python3.12-venv, or 'pyenv install 3.12'), or name it:" >&2; \
	echo "  make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)" >&2; exit 1; \
fi
endef

# Dependency groups need pip 25.1.
$(VENV)/pyvenv.cfg $(OLDEST_VENV)/pyvenv.cfg:
	@$(FIND_PYTHON); echo "making $(@D) with $$("$$python" --version)"; "$$python" -m venv $(@D)
	@$(@D)/bin/python -m pip install $(PIP_FLAGS) 'pip>=25.1'

$(GROUPS:%=.make/%): .make/%: pyproject.toml $(VENV)/pyvenv.cfg
	@echo "installing what 'make $*' needs into $(VENV) (once)"
	@$(BIN)/python -m pip install $(PIP_FLAGS) --editable . --group $*
	@mkdir -p .make && touch $@

.make/dev: pyproject.toml $(VENV)/pyvenv.cfg
	@echo "installing what developers need into $(VENV) (once)"
	@$(BIN)/python -m pip install $(PIP_FLAGS) --editable '.[xarray,virtualizarr]' --group dev
	@mkdir -p .make && touch $(GROUPS:%=.make/%) $@

# The lower bounds of [project] dependencies, as constraints.
.make/oldest: pyproject.toml $(OLDEST_VENV)/pyvenv.cfg
	@echo "installing the oldest dependencies into $(OLDEST_VENV) (once)"
	@mkdir -p .make
	@sed -n '/^dependencies/,/^]/ s/^ *"\([a-z0-9-]*\)>=\([0-9.]*\)",*$$/\1==\2/p' pyproject.toml \
		> .make/oldest.txt
	@$(OLDEST_VENV)/bin/python -m pip install $(PIP_FLAGS) --editable . --group test \
		--constraint .make/oldest.txt
	@touch $@
