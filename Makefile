# Every target works from a fresh clone: the virtual environment is built when it is missing or its inputs changed.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.installed
JOBS ?= 2

.DEFAULT_GOAL := help
SCALE ?= cpu
# What the reproduce targets have in common. FRESH=1 trains every cell again, in runs/fresh/; KEEP=1 keeps the records in
# results/ and renders docs/ from them, to be committed. Without either nothing that git tracks is touched.
# CLUSTER=slurm, or CLUSTER="slurm partition=gpu", trains there: docs/SCALING.md.
CAMPAIGN = --scale $(SCALE) $(if $(CLUSTER),--cluster $(CLUSTER),--jobs $(JOBS)) $(if $(filter-out 0,$(FRESH)),--fresh) $(if $(filter-out 0,$(KEEP)),--keep) $(ARGS)

.PHONY: help install demo train test test-all test-engines lint docs wheel bench step-costs figure-bridge figure-toy-variance figure-reconstructions config-reference codec-floor tutorial clean reproduce reproduce-table-sorting reproduce-figure-ponder reproduce-table-binarized reproduce-figure-bpp reproduce-search-bpp reproduce-table-imagenet reproduce-table-cifar10 reproduce-figure-ablation reproduce-atlas render report status

help: ## Show this menu
	@awk -F':.*## ' '/^##@ /{printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## /{printf "  make %-25s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Start here

demo: $(READY) ## A tour of a minute: trains, sorts before and after, compresses a digit
	$(PY) scripts/demo.py

train: $(READY) ## The default job: a network with a hard signum learns to sort five numbers
	$(PY) train.py $(ARGS)

$(READY): pyproject.toml constraints.txt scripts/install.sh
	@PYTHON=$(PYTHON) bash scripts/install.sh $(VENV)
	@touch $@

install: $(READY) ## Build .venv with the pinned versions (every other target does this when needed)

##@ Check

test: $(READY) ## Run the test suite (a few minutes on two cores)
	$(PY) -m pytest -n $(JOBS) -m "not slow and not fault and not slurm and not ray" $(ARGS)

test-all: $(READY) test-engines ## Run the test suite with the slow tests, with every fault and with test-engines
	$(PY) -m pytest -n $(JOBS) -m "not slurm and not ray" $(ARGS)

test-engines: $(READY) ## Sweeps on a real Slurm and a real Ray, where they are installed
	$(PY) -m pytest -m "slurm or ray" -rs $(ARGS)

lint: $(READY) ## Check style, formatting and types
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

docs: $(READY) ## Build the documentation into docs/_build/html, offline; a warning is an error
	$(PY) -m sphinx -q -W --keep-going -b html docs docs/_build/html

wheel: $(READY) ## Build the wheel and the source archive into dist/
	$(PY) -m build

##@ Reproduce [SCALE=smoke|cpu|paper JOBS=2 FRESH=1 KEEP=1 CLUSTER=slurm]: runs what is missing; the same command goes on

REPORT = $(PY) -m experiments.site --scale $(SCALE) $(if $(filter-out 0,$(FRESH)),--fresh)
# Without those that have nothing to run at this scale.
STUDIES = $(filter-out $(if $(filter smoke,$(SCALE)),representation/search) $(if $(filter cpu,$(SCALE)),imagenet) $(if $(filter paper,$(SCALE)),atlas), \
    sorting binarized representation/fashion_mnist representation/cifar10 representation/search imagenet classification/cifar10 classification/ablation atlas)
reproduce: $(READY) ## All studies, then the report; what fails does not stop the others
	@failed=; for study in $(STUDIES); do \
	    echo "== $$study"; \
	    $(PY) -m experiments $$study $(CAMPAIGN) || { code=$$?; [ $$code -lt 128 ] || exit $$code; failed="$$failed $$study"; }; \
	done; \
	$(REPORT) || failed="$$failed report"; \
	[ -z "$$failed" ] || { echo "not all of:$$failed"; exit 1; }

reproduce-table-sorting: $(READY) ## Sorting: what is missing, then its table
	$(PY) -m experiments sorting $(CAMPAIGN)

reproduce-figure-ponder: $(READY) ## The ponder figure alone
	$(PY) -m experiments sorting --only signum-rnn-p $(CAMPAIGN)

reproduce-table-binarized: $(READY) ## Density estimation: what is missing, then its table
	$(PY) -m experiments binarized $(CAMPAIGN)

DATASET ?= fashion_mnist
reproduce-figure-bpp: $(READY) ## Codes of images of every size [DATASET=fashion_mnist|cifar10]
	$(PY) -m experiments representation/$(DATASET) $(CAMPAIGN)

reproduce-search-bpp: $(READY) ## The search behind it: learning rates and knobs, by validation
	$(PY) -m experiments representation/search $(CAMPAIGN)

reproduce-table-imagenet: $(READY) ## The paper's ImageNet table [smoke, or paper with GPUs and paths.data]
	$(PY) -m experiments imagenet $(CAMPAIGN)

reproduce-table-cifar10: $(READY) ## Hard functions inside a Resnet18
	$(PY) -m experiments classification/cifar10 $(CAMPAIGN)

reproduce-figure-ablation: $(READY) ## Its case studies: placement, conditioning, straight-through
	$(PY) -m experiments classification/ablation $(CAMPAIGN)

reproduce-atlas: $(READY) ## Which gradient for which function
	$(PY) -m experiments atlas $(CAMPAIGN)

render: $(READY) ## docs/, the README's tables and the experiments' headers from results/
	$(PY) -m experiments sorting --render

report: $(READY) ## site/index.html: all results as one page, no network needed
	$(REPORT) $(ARGS)

STUDY ?= sorting
status: $(READY) ## What of a study is done, running, failed or missing [STUDY=sorting]
	$(PY) -m experiments $(STUDY) --scale $(SCALE) --status

##@ Measure, draw and write

bench: $(READY) ## Measure speed against bare PyTorch; prints a table and writes bench.json
	$(PY) scripts/bench.py $(ARGS)

step-costs: $(READY) ## What a training step of every row of classification costs, side by side (3 minutes)
	$(PY) scripts/step_costs.py

figure-bridge: $(READY) ## The paper's toy figure: a learned bridge and its gradient
	$(PY) scripts/figure_bridge.py

figure-toy-variance: $(READY) ## Loss and gradient variance on the toy of REBAR and RELAX (40 seconds)
	$(PY) scripts/figure_toy_variance.py

figure-reconstructions: $(READY) ## Images over what is left of them [DATASET=fashion_mnist|cifar10]
	$(PY) scripts/figure_reconstructions.py --dataset $(DATASET)

config-reference: $(READY) ## Write docs/CONFIG.md: every option with its range, from conf/ and the classes it names
	$(PY) scripts/config_reference.py

codec-floor: $(READY) ## How small JPEG and WebP can make test images [ARGS="--dataset cifar10"]
	$(PY) scripts/codec_floor.py $(ARGS)

tutorial: $(READY) ## Run what docs/TUTORIAL.md quotes, and write what it prints into it
	$(PY) scripts/tutorial.py

clean: ## Remove the virtual environment and caches; runs/ stays
	rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache *.egg-info build dist docs/_build
