# `make run` and `make test` do all set-up: they create .venv from constraints.txt.
PYTHON ?= python3
# Python compiles what it imports, once, instead of pip all of the packages: half a minute less.
unexport PYTHONDONTWRITEBYTECODE
PIP = .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
PIP_MIN = .venv-min/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-min.txt
PIP_MAX = .venv-max/bin/python -m pip install --quiet --disable-pip-version-check --upgrade
PIP_EXECUTORCH = .venv-executorch/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
SHORT = tests/cli/test_agent_choice.py::test_an_agent_that_returns_nothing tests/cli/test_bad_input.py \
	tests/cli/test_plans.py tests/leaderboard/test_page.py tests/cli/test_train.py::test_learners_are_listed tests/envs/test_vector.py tests/test_api.py \
	tests/testing/test_part_checks.py tests/report/drawing tests/program/test_load_errors.py tests/program/tflite \
	tests/envs/wrappers/test_wrappers.py::test_any_algorithm_trains_through_the_adapter \
	tests/agents/test_exact.py::test_solving_prints_json_and_nothing_else

.PHONY: run test pytest test-thorough test-min test-max executorch lint docs bench fuzz tables zoo clean

run: .venv/run  ## the main job: the best plan of BERT as EGRL has it, proven, beside EGRL's; with picture and trace
	.venv/bin/memplace solve MemPlace-BERT-v0 --agent auto --agent egrl

# Side by side, as types take a minute of one core.
test: .venv/dev  ## style, types and the tests, slow ones too, with a quarter of the examples
	@$(MAKE) --no-print-directory --jobs=2 lint pytest

pytest: .venv/dev
	.venv/bin/python -m pytest -q -n auto --dist worksteal

test-thorough: .venv/dev lint  ## the same with every registered id and all examples; an hour on two cores
	.venv/bin/python -m pytest -q -n auto --dist worksteal --thorough

test-min: .venv-min/done  ## a short suite with the oldest versions that setup.cfg allows
	NUMBA_CACHE_DIR=$(CURDIR)/.venv-min/numba .venv-min/bin/memplace warm-up
	NUMBA_CACHE_DIR=$(CURDIR)/.venv-min/numba .venv-min/bin/python -m pytest -q -W default -m "not slow" $(SHORT)

test-max: .venv-max/done  ## the same suite with the newest versions of everything, as `pip install .` without constraints takes
	NUMBA_CACHE_DIR=$(CURDIR)/.venv-max/numba .venv-max/bin/memplace warm-up
	NUMBA_CACHE_DIR=$(CURDIR)/.venv-max/numba .venv-max/bin/python -m pytest -q -W default -m "not slow" $(SHORT)

executorch: .venv-executorch/done  ## plans in ExecuTorch's runtime, which is too large for .venv
	NUMBA_CACHE_DIR=$(CURDIR)/.venv-executorch/numba .venv-executorch/bin/python -m pytest -q tests/backends/executorch

lint: .venv/dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

docs: .venv/dev  ## the documentation as a site, build/site/index.html
	.venv/bin/python -m scripts.docs_site build/site

bench: .venv/dev  ## how fast, as JSON
	.venv/bin/python -m benchmarks.speed

# A campaign that finds something ends with 1; the other one follows all the same, then make fails.
fuzz: .venv/dev  ## the campaigns of docs/trust.md; about half an hour; they continue where they were stopped
	@found=0; \
	.venv/bin/python -m tests.fuzz --write docs/trust.md || found=1; \
	.venv/bin/python -m tests.fuzz.plan_mutants --write docs/trust.md || found=1; \
	exit $$found

tables: .venv/dev  ## the tables in docs/: measures what is missing; `python -m benchmarks list --missing` says how long that takes
	.venv/bin/python -m benchmarks run --write

zoo: .venv/dev  ## export the zoo again; needs its own heavy packages
	$(PIP) -r scripts/requirements-export.txt
	.venv/bin/python -m scripts.export_zoo
	.venv/bin/python -m scripts.export_training
	.venv/bin/python -m scripts.zoo_counts

.venv/bin/python:
	$(PYTHON) -m venv .venv

# What the agents of `run` need. While torch is unpacked, the other core compiles kernels for a small program. PyPI's torch
# has CUDA; docs/install.md says how to get one without.
.venv/run: .venv/bin/python setup.cfg constraints.txt
	$(PIP) --editable .
	.venv/bin/memplace solve MemPlace-Tiny-v0 --out .venv/tiny >/dev/null 2>&1 & \
		$(PIP) torch tensorboard matplotlib pillow && wait
	touch $@

.venv/dev: .venv/run
	$(PIP) --editable ".[agents,viz,tflite,micro,jax,execute,distributed,minari,page,audit,docs,dev]"
	touch $@

# Old versions warn of what newer ones mended, so warnings are no errors there.
.venv-min/done: setup.cfg constraints-min.txt
	$(PYTHON) -m venv .venv-min
	$(PIP_MIN) torch
	$(PIP_MIN) --editable ".[agents,viz,tflite,page]" hypothesis pytest
	touch $@

# torch is the one exception: newer releases may come without a CPU build. The versions are those of the day on which
# .venv-max was made; `rm -r .venv-max` takes today's.
.venv-max/done: setup.cfg
	$(PYTHON) -m venv .venv-max
	$(PIP_MAX) torch==2.13.0
	$(PIP_MAX) --editable ".[agents,viz,tflite,page]" hypothesis pytest
	touch $@

.venv-executorch/done: setup.cfg constraints.txt
	$(PYTHON) -m venv .venv-executorch
	$(PIP_EXECUTORCH) torch
	$(PIP_EXECUTORCH) --editable ".[executorch]" hypothesis pytest
	touch $@

clean:
	rm -rf .venv .venv-min .venv-max .venv-executorch out build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
