# make demo   set up, show the main study's shipped page at once, run a small one into it
# make test   set up, run every check and test
# make check  lint, types and the quick tests, in two minutes, for who is at work on it
# make figures  draw the figures of the guide from results/; make reference  write its reference
# make package  wheel and sdist into dist/; make times  time the commands of the README
# make cost   time steps of the largest presets, and write what these would cost
# make setup  the part they share: a virtual environment with the package in it

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
QUIET := $(if $(CI),--quiet,--quiet --progress-bar on)

.PHONY: demo test check exact setup lint docs figures reference package times cost browser lock clean

demo: setup
	$(BIN)/mnemoscope study retention --preset demo --out runs/demo
	@echo "next    $(BIN)/mnemoscope scope runs          look into the models that were just trained"
	@echo "        $(BIN)/mnemoscope show retention      the page of the full study, 110 trainings"
	@echo "        $(BIN)/mnemoscope study retention     run all of that here"

test: .venv/dev browser lint docs
	$(BIN)/python -m pytest -n auto
	$(MAKE) exact

check: .venv/dev lint
	$(BIN)/python -m pytest -n auto -m "not slow and not browser"

# What is promised bit for bit, as on processors with fewer instructions and with more threads.
exact: .venv/dev
	TEST_INSTRUCTIONS=avx2 TEST_THREADS=1 $(BIN)/python -m pytest -n auto -m exact
	TEST_INSTRUCTIONS=plain TEST_THREADS=2 $(BIN)/python -m pytest -n auto -m exact

setup: .venv/core

lint: .venv/dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/dev
	$(BIN)/zensical build --clean --strict

figures: .venv/dev browser
	$(BIN)/python docs/draw_figures.py

reference: .venv/dev
	$(BIN)/python docs/write_reference.py

package: .venv/dev
	$(BIN)/python -m hatchling build -d dist

times: setup
	$(BIN)/python docs/time_commands.py

cost: .venv/dev
	$(BIN)/python -m cost

.venv/core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "mnemoscope needs Python 3.11 or newer; name one: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(PIP) install $(QUIET) --constraint constraints.txt torch
	$(PIP) install $(QUIET) --constraint constraints.txt --editable '.[huggingface,scope]'
	@touch $@

.venv/dev: .venv/core
	$(PIP) install $(QUIET) --constraint constraints.txt --editable '.[dev]'
	@touch $@

# Pages are tested in a real browser where there is one; root on Debian can have it installed.
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	    apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium >/dev/null; } || \
	  echo "There is no Chromium here: browser tests will be skipped."

# Pin what is installed now. No build tags and no addresses: a GPU user gets the GPU build.
lock: .venv/dev
	$(PIP) freeze --exclude-editable | sed 's/+[a-z0-9.]*$$//' | grep -v ' @ ' > constraints.txt

clean:
	rm -rf .venv site dist runs/demo
