# `make demo` and `make test` need Python 3.11+ and make; each sets up .venv by itself.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-all lint bench clean

demo: $(READY)
	$(BIN)/eiv reproduce --out demo

test: $(READY)
	$(BIN)/pytest -n auto

test-all: $(READY)
	$(BIN)/pytest -n auto -m "slow or not slow"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks/speed.py --write
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/memory.py --write

clean:
	rm -rf .venv demo

# Made once, renewed when the requirements change. The stamp is written last, so an interrupted set-up starts anew.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "eiv needs Python 3.11 or newer; choose one with: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
