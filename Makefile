# Everything a contributor runs. Each target brings up what it needs by itself, starting from Python and make alone.

BIN := .venv/bin
AS_ROOT := scripts/as-root
EVERY_PROCESSOR := -n auto --dist worksteal
# Two workers, each with a local cluster; somebody's own cluster has one. See tests/lanes.py.
# Without pytest's cache: one that root has written ends every later pytest of somebody else in an error.
CLUSTER_TESTS := $(AS_ROOT) $(BIN)/pytest -v --durations=20 -p no:cacheprovider --dist loadfile --no-loadscope-reorder \
  -n $(if $(CORRAL_TEST_KUBECONFIG),0,2)

MAKE_IMAGES := $(AS_ROOT) $(BIN)/python -m images
GUESTS := guests: $(AS_ROOT) $(BIN)/python -m corral.testing.guests
# Who cannot become root, or must give a password, is told before the tests that need none.
FIND_ROOT := $(AS_ROOT) true

# The contract tests run in `check` against the fake API server, and in `test` against the fake and the real one.
CHECKS := \
  "lint: $(BIN)/ruff check" \
  "format: $(BIN)/ruff format --check" \
  "types: $(BIN)/mypy" \
  "imports: $(BIN)/lint-imports" \
  "generated: $(BIN)/python -m corral.install deploy --check" \
  "fast tests: $(BIN)/pytest -q $(EVERY_PROCESSOR) tests --ignore=tests/integration --ignore=tests/e2e --ignore=tests/sim -m 'not cluster'"

.DEFAULT_GOAL := help
.PHONY: help up down test check sim e2e bench images generate environment

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

up: environment ## A real Kubernetes on this machine with Corral, a Slurm cluster and a first job in it
	@$(BIN)/corral up

down: environment ## Remove the local cluster completely
	@$(BIN)/corral down

test: environment ## All tests: check, the simulator, then everything on a real local cluster; ends with what ran
	@$(FIND_ROOT)
	@scripts/stages $(CHECKS) \
	  "simulator: $(BIN)/pytest -q $(EVERY_PROCESSOR) tests/sim" \
	  "programs: $(BIN)/corral local prepare" \
	  "images: $(MAKE_IMAGES)" \
	  "$(GUESTS)" \
	  "cluster tests: $(CLUSTER_TESTS) tests/contract tests/integration tests/e2e"

check: environment ## Fast: lint, format, types, import contracts, tests that need no cluster
	@scripts/stages $(CHECKS)

sim: environment ## NodeSets against models of Slurm and Kubernetes with faults by seed; SEEDS=1000, SEEDS==17 is one
	@$(BIN)/python -m tests.sim "$(or $(SEEDS),300)"

e2e: environment ## The end-to-end tests alone, on a real local cluster
	@$(FIND_ROOT)
	@scripts/stages "programs: $(BIN)/corral local prepare" "images: $(MAKE_IMAGES)" "$(GUESTS)" "e2e: $(CLUSTER_TESTS) tests/e2e"

bench: environment ## Measure the figures of docs/performance.md
	@$(AS_ROOT) $(BIN)/python -m bench

images: environment ## The container images, from Debian packages; CLUSTER=name imports them into a local cluster
	@$(MAKE_IMAGES) $(IMAGES) $(if $(CLUSTER),--cluster $(CLUSTER))

generate: environment ## Write what is generated: deploy/ from our types, Kubernetes models from a local API server
	@$(BIN)/python -m corral.install deploy
	@$(BIN)/corral up --bare
	@KUBECONFIG="$${XDG_STATE_HOME:-$$HOME/.local/state}/corral/dev/kubeconfig" $(BIN)/python -m corral.kube.generate

environment:
	@scripts/bootstrap
