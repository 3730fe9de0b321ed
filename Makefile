# Everything a checkout needs: `make demo`, `make test`, or any target below.
# The first run creates .venv and installs into it; stamps in .make/ keep later runs fast.
# Choose another interpreter with `make PYTHON=/path/to/python test`.

PYTHON ?=
VENV := .venv
OLDEST_VENV := .venv-oldest
BIN := $(VENV)/bin
# Most modules are never imported: compiling all of them would take longer than installing them.
PIP_FLAGS := --quiet --disable-pip-version-check --no-compile
GROUPS := demo bench test lint docs dist
JAVASCRIPT := conformance/adapters/javascript
REPORTS := conformance-output
REGISTRY := registry-output
SITE := docs-output
# Each worker begins with a third of the tests, in order: what a file makes for all its tests is made
# once. Three on two cores, because tests wait for servers and processes.
PYTEST := python -m pytest -n 3 --dist worksteal
QUESTIONS := 10000
SEED := 1
FAST := not slow and not servers and not combinations # the markers are in pyproject.toml

# Python keeps bytecode: compiling again would cost pytest, and each process of the tests, seconds.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help setup demo samples map pictures check test test-oldest conformance fuzz corpus registry lint format types types-of-changes layers docs dist bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile

setup: .make/dev ## create .venv with everything that developers need

demo: .make/demo ## three real netCDF files as one Zarr hierarchy, opened with xarray
	@$(BIN)/python -m demo

samples: .make/demo ## every real file of iris-sample-data, compared with what its own library reads
	$(BIN)/python -m demo.every_file

map: .make/demo .make/node ## maps in a web browser, drawn from netCDF files and manifests on web servers
	$(BIN)/python -m demo.map

pictures: .make/demo .make/chromium ## the pictures in docs/ of the pages that --html writes
	$(BIN)/python -m demo.pages

check: .make/lint ## before each commit: lint, layers, types (pyright's of changed files), and the fast tests
	@$(MAKE) --silent types-of-changes >.make/types.log 2>&1 & types=$$!; \
	$(MAKE) --silent lint layers && \
		HYPOTHESIS_PROFILE=quick $(BIN)/$(PYTEST) --quiet -m '$(FAST)'; status=$$?; \
	wait $$types || status=1; cat .make/types.log; exit $$status

test: .make/test .make/chromium ## all tests of the package, with coverage; HYPOTHESIS_PROFILE=thorough for more examples
	$(BIN)/$(PYTEST) --cov --cov-report=term

# Few examples and combinations, and no slow ones: other versions differ in interfaces, not in values.
test-oldest: .make/oldest ## the tests with the oldest dependencies that pyproject.toml allows
	@$(OLDEST_VENV)/bin/python -c 'import zarr; print("zarr", zarr.__version__)'
	HYPOTHESIS_PROFILE=quick $(OLDEST_VENV)/bin/$(PYTEST) -m 'not slow and not combinations' \
		-W default tests \
		$(NOT_ON_OLDEST:%=--ignore-glob 'tests/%')

conformance: .make/test .make/node .make/chromium ## every adapter against the conformance suite, and the tests of the suite and the specification
	@rm -rf $(REPORTS) && mkdir -p $(REPORTS)
	@# Three at a time: they wait for their runners, and for servers that are slow on purpose, as the
	@# tests do. The table fails on unexpected results, after all adapters have run.
	@printf '%s\n' $(ADAPTERS) | xargs -P 3 -I NAME $(MAKE) --silent $(REPORTS)/NAME.json
	$(BIN)/python -m conformance.runner.table $(ADAPTERS:%=$(REPORTS)/%.json)
	$(BIN)/$(PYTEST) conformance/tests specs/tests $(JAVASCRIPT)

fuzz: .make/test .make/node ## 10,000 random questions to the Python and the JavaScript reader; SEED=7 for others
	@# Half of them at a time, from hierarchies that are far apart.
	@printf '%s\n' $(SEED) $(SEED)000000 | xargs -P 2 -I FIRST $(BIN)/python -m conformance.fuzzer \
		--questions $$(($(QUESTIONS) / 2)) --seed FIRST '$(ADAPTER_python)' '$(ADAPTER_javascript)'

corpus: .make/test ## regenerate the conformance corpus
	$(BIN)/python -m conformance.generator

registry: .make/test .make/node ## the specification as it is submitted to zarr-extensions, in registry-output/, and its checks there
	$(BIN)/python -m specs.registry $(REGISTRY)

lint: .make/lint ## ruff: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: .make/lint ## let ruff fix what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: .make/lint ## mypy and pyright, both strict
	@$(BIN)/pyright & pyright=$$!; $(BIN)/mypy; mypy=$$?; wait $$pyright && exit $$mypy

# mypy keeps what it has found; pyright would look at all files again, which takes longer than the tests.
types-of-changes: .make/lint
	@changed=$$(git diff --name-only --diff-filter=d HEAD -- 'zarr_manifest/*.py' && \
		git ls-files --others --exclude-standard -- 'zarr_manifest/*.py') || changed=zarr_manifest; \
	$(BIN)/mypy; mypy=$$?; \
	if [ -n "$$changed" ]; then $(BIN)/pyright $$changed && exit $$mypy; else exit $$mypy; fi

layers: .make/lint ## import-linter: imports go downwards only
	$(BIN)/lint-imports --no-cache

docs: .make/docs ## the site, with the API reference, in docs-output/; a broken link is an error
	$(BIN)/sphinx-build -b html -c docs -E -W --keep-going -q . $(SITE)

dist: .make/dist ## sdist and wheel in dist/, and those of the suite, checked, and tried in empty environments
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/python -m build --wheel --outdir dist conformance
	$(BIN)/twine check --strict dist/*
	$(BIN)/python .ci/pack_suite.py dist
	$(BIN)/python .ci/try_suite.py dist
	$(BIN)/python .ci/try_dist.py dist

bench: .make/bench ## one table beside zarr and other readers; ARGS=--quick for a quick look
	$(BIN)/python -m benchmarks $(ARGS)

clean: ## remove everything that make created
	rm -rf $(VENV) $(OLDEST_VENV) .make build dist demo-output bench-output $(REPORTS) $(REGISTRY) $(SITE) $(JAVASCRIPT)/node_modules $(JAVASCRIPT)/types htmlcov .coverage .coverage.* \
		.pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Tests that do not depend on the versions of required dependencies: of pure modules, the tests' own
# servers and the documents; of what the command line adds to functions that are tested themselves;
# and of conversion from formats whose libraries are optional, so that the newest are installed.
NOT_ON_OLDEST := benchmarks/* command_line/* locations/* servers/* inspection/* test_*.py \
	format/test_chunk_*.py format/test_conditions.py format/test_declaration.py \
	format/test_partition_names.py \
	sources/test_byte_ranges.py sources/test_plan.py sources/test_local_files.py \
	hierarchy/test_entry_points.py hierarchy/test_hostile_metadata.py \
	hierarchy/test_link_races.py hierarchy/test_process_end.py writing/test_entries.py \
	conversion/files/test_files_[!fh]*.py conversion/files/test_files_found.py \
	conversion/files/test_files_hdf5_*.py conversion/kerchunk/test_kerchunk_[cdktu]*.py \
	conversion/kerchunk/test_kerchunk_export_*.py conversion/older_writers/* \
	conversion/test_renewal*.py conversion/test_accepting.py conversion/files/test_scans_*.py conversion/files/test_typed_values.py \
	writing/test_cleaning*.py writing/test_commit_interrupted.py hierarchy/test_stale_documents.py

ADAPTERS := python python-chunk-by-chunk javascript core-reader zarr-python zarrita
ADAPTER_python = $(BIN)/python -m conformance.adapters.python
ADAPTER_python-chunk-by-chunk = $(ADAPTER_python) --chunk-by-chunk
ADAPTER_javascript = node $(JAVASCRIPT)/adapter.js
ADAPTER_core-reader = $(BIN)/python -m conformance.adapters.core_reader
ADAPTER_zarr-python = $(BIN)/python -m conformance.adapters.zarr_python
ADAPTER_zarrita = node $(JAVASCRIPT)/plain-zarrita.js

$(ADAPTERS:%=$(REPORTS)/%.json): $(REPORTS)/%.json:
	-@$(BIN)/python -m conformance.runner --expect conformance/expectations/$*.json --json $@ \
		--junit $(REPORTS)/$*.xml --badge $(REPORTS)/$*-badge.json -- $(ADAPTER_$*)

# ---------------------------------------------------------------- environments

# The first Python >= 3.12 that can create environments.
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
	@$(BIN)/python -m pip install $(PIP_FLAGS) --editable '.[all]' --group dev
	@mkdir -p .make && touch $(GROUPS:%=.make/%) $@

.make/node: $(JAVASCRIPT)/package.json
	@command -v npm >/dev/null || { echo "error: npm was not found; install Node.js 20 or later." >&2; exit 1; }
	@echo "installing the packages of the JavaScript reader into $(JAVASCRIPT)/node_modules (once)"
	@cd $(JAVASCRIPT) && npm install --no-audit --no-fund --no-package-lock --loglevel=error
	@mkdir -p .make && touch $@

# The JavaScript reader is tested in a browser, which only the system's package manager can install.
.make/chromium:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		echo "installing chromium (once)" && apt-get -qq update && \
		DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium >/dev/null; } || \
		{ echo "error: chromium was not found; install it (Debian: apt-get install chromium)." >&2; exit 1; }
	@mkdir -p .make && touch $@

# The lower bounds of the dependencies in [project], as constraints.
.make/oldest: pyproject.toml $(OLDEST_VENV)/pyvenv.cfg
	@echo "installing the oldest dependencies into $(OLDEST_VENV) (once)"
	@mkdir -p .make
	@sed -n '/^dependencies/,/^]/ s/^ *"\([a-z0-9-]*\)>=\([0-9.]*\)",*$$/\1==\2/p' pyproject.toml \
		> .make/oldest.txt
	@$(OLDEST_VENV)/bin/python -m pip install $(PIP_FLAGS) --editable . --group test \
		--constraint .make/oldest.txt
	@touch $@
