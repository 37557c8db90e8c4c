# The environment is made in .venv by the first command that needs it; nothing else is installed.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test assault lint format readme docs page page-check clean

demo: .venv/installed ## the claim on a laptop: baseline, U only, Random, Normal, and a picture
	$(BIN)/icecore demo

test: export PYTHONDONTWRITEBYTECODE = # tests start hundreds of processes, which share compiled files
test: .venv/installed ## the whole test suite, on two cores, then what computes with shapes and types checked
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m "not shapes"
	ICECORE_CHECK_SHAPES=1 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m shapes

assault: .venv/installed ## hundreds of kills, fuzzed calls, faults and attacks, with counts; about an hour, by hand
	PYTHONPATH=tests $(BIN)/python -m assault

lint: .venv/installed ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright

format: .venv/installed ## fix what lint can fix itself
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

readme: .venv/installed ## tables and numbers of results in README and docs, from results/
	$(BIN)/python -m icecore.paper.documents README.md docs/*.md

docs: .venv/installed ## the site from docs/, into build/site; a warning is an error
	$(BIN)/python -m sphinx --fail-on-warning --nitpicky --quiet --doctree-dir build/doctrees docs build/site
	@echo "build/site/index.html"

page: ## the script and style of the page, from web/; needs node and npm, which users do not
	cd web && npm ci && npm run build

page-check: ## whether the checked-in script and style are what web/ builds, byte for byte
	cd web && npm ci && npm run check

clean: ## remove the environment and caches, keep runs
	rm -rf .venv .pytest_cache .ruff_cache build

.venv/installed: pyproject.toml constraints.txt
	@echo "installing into .venv (a minute or two)"
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@# Builds of torch for GPUs bring their own Triton; elsewhere it is there to test the kernels in its interpreter.
	@$(BIN)/python -c 'import triton' 2>/dev/null || $(BIN)/python -m pip install --quiet --no-deps triton==3.6.0 \
		|| echo "no Triton for this machine: the kernels will not be tested"
	@touch $@
