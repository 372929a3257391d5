# The two commands of the README are `make sweep` and `make test`; `make` alone lists all.
VENV ?= .venv
STAMP := $(VENV)/.installed
BIN := $(VENV)/bin
# Every process that a test starts would compile the package anew.
export PYTHONDONTWRITEBYTECODE :=
ENTRIES := $(sort $(shell sed -n 's/^ *"stepscope\.\([a-z]*\)",$$/\1/p' pyproject.toml) $(wildcard *.py) py.typed)

.DEFAULT_GOAL := help
.PHONY: help sweep test fuzz fire mutants pairs gate-acceptance gate-real ray-tests sweep-scale check check-environment view clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "  make %-18s %s\n", $$1, $$2 }'

sweep: $(STAMP) ## run the default sweep on whatever device is here; ends with the path of the report (SWEEP="SPEC --param k=v ...")
	$(BIN)/perf sweep $(SWEEP)

test: $(STAMP) ## run the whole test suite, a process a core (TESTS="tests/cli -k doctor" narrows it)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist loadfile --no-loadscope-reorder $(TESTS)

fuzz: $(STAMP) ## 20,000 mutated captures through both importers (FUZZ=n for another number)
	STEPSCOPE_FUZZ=$(or $(FUZZ),20000) $(BIN)/python -m pytest -q tests/instrumentation/sources/test_capture_fuzz.py

fire: $(STAMP) ## the runner under 10,000 random steps, every array and every KV cell looked at (FIRE=n for another number)
	STEPSCOPE_FIRE=$(or $(FIRE),10000) $(BIN)/python -m pytest -q -s tests/runner/fire/test_runner_under_fire.py

mutants: $(STAMP) ## plant every fault of the register, then print which check finds which
	$(BIN)/python -m pytest -q -s tests/runner/fire/test_mutants.py

pairs: $(STAMP) ## greedy equality for all pairs of switches; prints the pairs that are impossible, and why
	$(BIN)/python -m pytest -q -s tests/runner/models/test_pairwise_equality.py

gate-acceptance: $(STAMP) ## the gate on simulated machines, 3,000 trials of each promise, about 5 minutes (TRIALS=n for another number)
	STEPSCOPE_GATE_TRIALS=$(or $(TRIALS),3000) $(BIN)/python -m pytest -q -s tests/analysis/gate/test_acceptance.py

sweep-kills: $(STAMP) ## perf sweep under 20 kills of driver and worker at random moments, about 5 minutes (KILLS=n for another number)
	STEPSCOPE_KILLS=$(or $(KILLS),20) $(BIN)/python -m pytest -q -s tests/experiments/test_sweep_kills.py

ray-tests: $(STAMP) ## sweeps on a Ray cluster of three nodes on this machine, about 5 minutes (installs Ray)
	$(BIN)/python -m pip install -q "ray>=2.40"
	STEPSCOPE_RAY=1 $(BIN)/python -m pytest -q tests/experiments/launchers/test_ray_sweep.py tests/experiments/launchers/test_ray_drivers.py

sweep-scale: $(STAMP) ## what a sweep costs beside its points, on this machine
	$(BIN)/python benchmarks/sweep_scale.py local

gate-real: $(STAMP) ## the gate with real processes on this machine: ten self-comparisons, +5 % planted, about a quarter of an hour
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/gate_end_to_end.py

check: $(STAMP) view ## lint, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

view: ## links through which mypy and pyright see the checkout as the package
	@rm -rf .view && mkdir -p .view/stepscope
	@for entry in $(ENTRIES); do ln -sfn ../../$$entry .view/stepscope/$$entry; done

check-environment: $(STAMP) ## make the environment and do nothing else

clean: ## remove the environment and what tools left behind
	rm -rf .venv .view build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(STAMP): pyproject.toml constraints.txt
	@.ci/make-venv $(VENV)
