# Every target installs what it needs into a virtual environment in .venv, updated when its inputs change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check format bench results clean

demo: $(READY)  ## edit, generate data, train and evaluate on a small example
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/demo.sh

test: $(READY)  ## run all tests
	@$(BIN)/python -m tests.browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

check: $(READY)  ## check formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)  ## format the code and fix lint errors
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)  ## measure speed, as ratios within one run; written to benchmarks/results.txt
	$(BIN)/python -m benchmarks

results: $(READY)  ## render the tables of README.md, docs/ and results/ from the files in results/
	$(BIN)/python -m benchmarks.results

clean:  ## remove .venv, the demo and caches
	rm -rf $(VENV) demo .pytest_cache .mypy_cache .ruff_cache

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "stepedit needs Python 3.11 or newer; name one: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 2; }
	@echo "installing into $(VENV) (once; torch is large, so this takes a minute or two)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
