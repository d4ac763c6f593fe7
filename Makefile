# `make demo` and `make test` need Python 3.11+ and make; each sets up .venv by itself.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

# Two workers for two cores, one thread each (tests/conftest.py); who is done takes over from the others.
PYTEST := $(BIN)/pytest -n auto --dist worksteal

.PHONY: demo test test-all test-gpu coverage lint docs package hooks bench clean

demo: $(READY)
	$(BIN)/eiv reproduce --out demo

test: $(READY)
	$(PYTEST)

# The whole suite with one thread; then what could depend on the CPU, as older ones compute it and with three threads.
test-all: $(READY)
	EIV_TEST_THREADS=1 $(PYTEST) -m "not gpu"
	ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE $(PYTEST) -m "numerical and not slow"
	ATEN_CPU_CAPABILITY=avx2 $(PYTEST) -m "numerical and not slow"
	EIV_TEST_THREADS=3 $(PYTEST) -m "numerical and not slow"

test-gpu: $(READY)
	$(BIN)/pytest -m gpu tests/gpu

# Lines and branches that the tests run; fails below `fail_under` in pyproject.toml. build/coverage/html shows them.
coverage: $(READY)
	$(PYTEST) --cov --cov-report=term:skip-covered --cov-report=html

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site, in build/site: warnings are errors, the gallery and the notebook run, links inside are checked.
docs: .venv/.docs
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build -W --keep-going -b html docs build/site
	$(BIN)/python docs/check_site.py build/site

# Wheel and source archive in dist/, with the checks of the registry, and the wheel in an environment that has nothing else.
package: .venv/.publish
	rm -rf dist build/empty
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(PYTHON) -m venv build/empty
	build/empty/bin/pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd build && empty/bin/python -c "import eiv; eiv.EiVRegressor(x_err=0.1, random_state=0).fit([[i / 40] for i in range(40)], range(40)).predict([[0.5]])"

# What `lint` checks, at every commit of this clone.
hooks: $(READY)
	$(BIN)/pre-commit install

bench: $(READY)
	$(BIN)/python benchmarks/speed.py --write
	$(BIN)/python benchmarks/defaults.py --write
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/memory.py --write

clean:
	rm -rf .venv demo build/coverage build/site build/empty docs/api docs/gallery_pages docs/ten_lines.ipynb

# Made once, renewed when the requirements change. The stamp is written last, so an interrupted set-up starts anew.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "eiv needs Python 3.11 or newer; choose one with: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# An extra that only one target needs.
.venv/.docs .venv/.publish: .venv/.%: $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$*]'
	@touch $@
