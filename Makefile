# Set-up, checks, tests, demo and benchmarks. `make` alone lists them.
# `make test PYTHON=python3.13` has a venv of its own, .venv-python3.13.
PYTHON ?= python3
VENV   := .venv$(if $(filter-out python3,$(PYTHON)),-$(notdir $(PYTHON)))
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# Brokers start by the hundred in tests: what Python compiles is kept, also where the environment says otherwise.
# Beforehand only what a broker loads is compiled: of most packages most is never used.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv lock check format test search long fuzz crash chaos tables sim demo bench bench-smoke limits soak \
	sanitize console-test dist dist-test docs lock-release clean

help:           ## list the targets
	@awk -F ':.*## *' '/^[a-z-]+:.*##/ { printf "%-14s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(STAMP)  ## create .venv from the lock file

# Sources of compiled modules: a .pyx, or a .py with a .pxd beside it.
PXD := $(shell find src -name '*.pxd')
COMPILED := $(shell find src -name '*.pyx') $(PXD) $(wildcard $(PXD:.pxd=.py))

# The lock has all that is needed, so pip need not look for more. PySpark comes as source, half a
# gigabyte: its wheel is built and installed, without compression, beside everything else.
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps
LOCKED := $(PIP) --no-compile --require-hashes -r

$(STAMP): requirements.lock pyproject.toml setup.py $(COMPILED)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Barnabas needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@awk '/^[^ ]/ { it = /^pyspark==/ } it' requirements.lock > $(VENV)/pyspark.lock
	@awk '/^[^ ]/ { it = /^pyspark==/ } !it' requirements.lock > $(VENV)/others.lock
	@printf '[bdist_wheel]\ncompression = stored\n' > $(VENV)/wheels.cfg
	DIST_EXTRA_CONFIG=$(abspath $(VENV))/wheels.cfg $(LOCKED) $(VENV)/pyspark.lock & pyspark=$$!; \
	  { $(LOCKED) $(VENV)/others.lock && $(PIP) --no-build-isolation -e . && wait $$pyspark; } \
	  || { kill $$pyspark 2>/dev/null; exit 1; }
	@$(BIN)/python -c 'import barnabas.cli.commands, barnabas.cli.server.server_run, importlib, uvloop; from barnabas.server.requests.api_handlers import LATE_MODULES; [*map(importlib.import_module, LATE_MODULES)]'
	@touch $(STAMP)

lock:           ## write requirements.lock from pyproject.toml (needs uv)
	uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --no-header \
	  --python-version 3.11 --extra all --group dev pyproject.toml -o requirements.lock

check: venv     ## what a reviewer would run first: lint, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: venv    ## put the code into the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Four processes are good for two processors: most of what three of them run waits for others.
SPREAD := --dist loadgroup --no-loadscope-reorder

test: venv      ## the test suite, as CI runs it; with PYTHON=python3.13 under that interpreter
	$(BIN)/python -m pytest -n 4 $(SPREAD) -m "not long"

search: venv    ## every property with random examples, ten times as many as `make test` tries
	BARNABAS_SEARCH=10 $(BIN)/python -m pytest -n 3 $(SPREAD) --timeout=1800 -m "not long"

long: venv      ## the rest of the suite: more of what takes long, with Apache Kafka among others; says what was skipped
	$(BIN)/python .ci/long.py -n 3 $(SPREAD)

fuzz: venv      ## the fuzzers, for half an hour instead of CI's few seconds
	BARNABAS_FUZZ=long $(BIN)/python -m pytest -s tests/server/test_fuzz.py tests/clients/test_bad_batches.py --timeout=3600

crash: venv     ## logs and brokers killed at random moments, 500 times instead of CI's dozens
	BARNABAS_CRASHES=500 $(BIN)/python -m pytest tests/log/test_crash.py tests/clients/test_kills.py --timeout=1800

chaos: venv     ## brokers killed, paused and cut off at random, for minutes instead of CI's seconds
	BARNABAS_CHAOS_SECONDS=300 $(BIN)/python -m pytest -s tests/chaos/test_chaos.py tests/cluster/test_any_order.py tests/cluster/test_zookeeper_gone.py --timeout=2400

tables: venv    ## topics of ten million records as tables, read while producers go on; RECORDS=1000000 for fewer
	BARNABAS_TABLE_RECORDS=$(if $(RECORDS),$(RECORDS),10000000) $(BIN)/python -m pytest -s -m long tests/spark/test_table_producing.py

sim: venv       ## a thousand clusters in simulation, for ten minutes at most
	$(BIN)/barnabas sim --seeds 1..1000 --minutes 10

demo: venv      ## the whole story in about a minute: a cluster, orders, Spark, a killed broker, the proof
	$(BIN)/barnabas demo

# The tests of the compiled modules, with a copy of them that checks every access to memory. The
# libraries come before Python's own; without its allocator each object is checked for itself. Two
# tests measure memory, of which the checks take much: they are left out.
SANITIZE := -fsanitize=address,undefined
SANITIZED := build/sanitized
SANITIZED_TESTS ?= tests/base tests/disk tests/wire tests/log tests/server tests/spark/test_record_decoder.py tests/spark/test_record_encoder.py

sanitize: venv  ## memory errors and undefined behaviour in the compiled modules, with GCC on Linux
	CFLAGS="$(SANITIZE) -fno-omit-frame-pointer -O1" LDFLAGS="$(SANITIZE)" $(BIN)/python setup.py -q build \
	  --build-base build/sanitize --build-lib $(SANITIZED)
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so) $$(gcc -print-file-name=libstdc++.so)" \
	  PYTHONPATH=$(CURDIR)/$(SANITIZED) PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1 \
	  $(BIN)/python -m pytest -m "not long" --timeout=1800 -k "not memory_is_returned and not half_a_handshake" $(SANITIZED_TESTS)

bench: venv     ## beside this machine's raw limits, then beside Apache Kafka where it can be had
	$(BIN)/barnabas bench
	$(BIN)/barnabas bench compare

bench-smoke: venv ## under two minutes: fails when a ratio to the raw limit fell by a third
	$(BIN)/barnabas bench guard

limits: venv    ## attacks on a broker and on Apache Kafka, half an hour; writes docs/limits.md
	$(BIN)/barnabas bench limits

soak: venv      ## an hour of load on three brokers: fails when something grows; SHORT=1 for ten minutes
	$(BIN)/barnabas bench soak --minutes $(if $(SHORT),10,60)

console-test: venv ## the web console in a real browser: every page and action; writes docs/console
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && apt-get install -y -qq chromium; } \
	  || { echo "the console's tests need Chromium: apt-get install chromium"; exit 1; }
	$(BIN)/python -m pytest tests/console --timeout=300

# Tools of a release, in a venv of their own: nothing that the broker or its tests import.
RELEASE := .venv-release$(if $(filter-out python3,$(PYTHON)),-$(notdir $(PYTHON)))
RELEASE_STAMP := $(RELEASE)/.installed
DIST ?= dist

$(RELEASE_STAMP): requirements-release.lock
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-release.lock
	@touch $(RELEASE_STAMP)

lock-release:   ## write requirements-release.lock from pyproject.toml (needs uv)
	uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --no-header \
	  --python-version 3.11 --group release -o requirements-release.lock

# Wheels are built from the sdist, elsewhere: they hold no leftover of this tree.
BUILD_FROM_SDIST = cd $(DIST)/unpacked && $(CURDIR)/$(RELEASE)/bin/python -m build --no-isolation --wheel --outdir $(abspath $(DIST))

dist: $(RELEASE_STAMP) ## sdist, compiled wheel and pure wheel in dist/, checked
	rm -rf $(DIST) && mkdir -p $(DIST)/unpacked
	$(RELEASE)/bin/python -m build --no-isolation --sdist --outdir $(DIST)
	tar -xzf $(DIST)/barnabas-*.tar.gz -C $(DIST)/unpacked --strip-components 1
	$(BUILD_FROM_SDIST)
	rm -rf $(DIST)/unpacked/build
	BARNABAS_PURE=1; export BARNABAS_PURE; $(BUILD_FROM_SDIST)
	rm -rf $(DIST)/unpacked
	$(RELEASE)/bin/twine check --strict $(DIST)/*
	$(RELEASE)/bin/check-wheel-contents $(DIST)

dist-test: venv dist ## installs each of dist/ where there is no compiler, uses it, and upgrades to it
	BARNABAS_DIST=$(abspath $(DIST)) $(BIN)/python -m pytest -s -m long tests/release/test_dist.py tests/release/test_stranger.py \
	  tests/release/test_rolling_upgrade.py

docs: venv $(RELEASE_STAMP) ## the documentation as a site, in site/; a link without a target fails
	mkdir -p build && COLUMNS=100 $(BIN)/python -m barnabas.cli.option_docs > build/options.md
	$(RELEASE)/bin/python .ci/docs_site.py

clean:          ## remove what the targets made
	rm -rf .venv .venv-* dist site .pytest_cache .mypy_cache .ruff_cache
