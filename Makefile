# Two commands matter: `make demo` and `make test`. Both need Python >= 3.11, git and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A tasks.py or templates/ in the current folder must never shadow our packages.
export PYTHONSAFEPATH := 1
# A run of all tests starts us again and again: told to keep no bytecode, Python would compile us each time.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo night service-demo sites-demo test soak measured matrix adversary check wheel release lock clean
demo: $(VENV)/.ready
	$(BIN)/flashferry lab demo

# A whole night against a stand-in CML controller; its report and the nights' history stay in ./nights.
night: $(VENV)/.ready
	$(BIN)/flashferry lab night

# The service as a team has it: twenty routers, two people, one plan approved and run. Nothing is left at its end.
service-demo: $(VENV)/.ready
	$(BIN)/flashferry lab service-demo

# Sites that work for themselves: a centre with a Redis, two depots with agents, neighbours, and a line that is cut in mid-run.
sites-demo: $(VENV)/.ready
	$(BIN)/flashferry lab sites-demo

# The gate: what CI decides by. More workers than processors, for the slow tests mostly wait; tests/conftest.py has them
# stand among the others.
test: $(VENV)/.ready
	$(BIN)/python -m pytest --numprocesses 4 --dist worksteal -m "not soak and not quarantined" $(PYTEST_ARGS)

# Everything long, which never refuses a landing: fuzzing, kills, browsers, outsiders. ROOM=nightly plays one subject's.
# The names of what failed are left in build/soak-red.txt.
soak: $(VENV)/.ready
	@mkdir -p build
	$(BIN)/python -m pytest --numprocesses 4 --dist worksteal -m "soak or quarantined" --red-list=build/soak-red.txt \
	  $(if $(ROOM),$(or $(wildcard tests/*/$(ROOM)* tests/*/test_$(ROOM)*),$(error no tests of "$(ROOM)"))) $(PYTEST_ARGS)

# Figures held inside bands, on an idle machine: `make measured FIGURES="name name"`. See docs/testing.md.
measured: $(VENV)/.ready
	PYTHONPATH=. $(BIN)/python -m benchmarks.held $(FIGURES)

# Every kill point times every fault, half an hour and more; soak plays a choice of them. Puts docs/fault-matrix.md's tables.
matrix: $(VENV)/.ready
	PYTHONPATH=. $(BIN)/python -m tests.e2e.matrix --update-docs
	PYTHONPATH=. $(BIN)/python -m tests.e2e.matrix --activation --update-docs

# Five hundred routers that lie, each by a seed; soak plays a choice of them. `--update-docs` puts docs/adversary.md's table.
adversary: $(VENV)/.ready
	PYTHONPATH=. $(BIN)/python -m tests.adversary --seeds 500 $(ADVERSARY_ARGS)

check: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The wheel, in environments of its own and away from the checkout: a file that is missing from it shows here, and so does
# a dependency that nobody declared.
wheel: $(VENV)/.ready
	$(BIN)/python .ci/wheel_test.py

# What a release consists of, in dist/: wheel and sdist (built twice, the same bytes), components and licences (CycloneDX),
# checksums. Needs a clean checkout and a dated section of CHANGELOG.md.
release: $(VENV)/.ready
	$(BIN)/python .ci/release.py

# Pins anew. Index lines are left out on purpose: the file must not name a registry.
lock:
	uv pip compile --universal --python-version 3.11 --generate-hashes --extra cml --extra lab --extra scp --extra service --extra sites \
	  --no-header --no-emit-index-url --quiet pyproject.toml -o requirements.txt
	uv pip compile --universal --python-version 3.11 --generate-hashes --extra cml --extra lab --extra scp --extra service --extra sites --extra netbox --group dev -c requirements.txt \
	  --no-strip-extras --no-header --no-emit-index-url --quiet pyproject.toml -o requirements-dev.txt
	uv pip compile --universal --python-version 3.11 --generate-hashes --group release \
	  --no-header --no-emit-index-url --quiet -o requirements-release.txt

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "flashferry needs Python >= 3.11, found %d.%d; run make PYTHON=python3.11" % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: requirements-dev.txt pyproject.toml | $(VENV)/bin/python
	# A source archive's setup.py may import from its own folder (ncclient's does), which the safe path forbids.
	env -u PYTHONSAFEPATH $(BIN)/python -m pip install --quiet --require-hashes --requirement requirements-dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
