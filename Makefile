# Everything one can do here. `make` alone lists it.
#
# Works from any directory (make -C DIR, make -f DIR/Makefile) and with GNU make 3.81, which macOS
# has. The first line of each target's comment is its line in the list.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.SUFFIXES:
MAKEFLAGS += --no-print-directory

# Not $(dir ...) of the last word: a path may hold spaces. This file includes no other.
ROOT := $(shell cd "$$(dirname "$$(printf '%s' '$(MAKEFILE_LIST)' | sed 's/^ *//')")" && pwd)

# The Python to make .venv with; once .venv is there, the one it was made with. Name another with
# make setup PYTHON=python3.12, and .venv is made anew.
PYTHON ?= $(shell for p in "$(ROOT)/.venv/bin/python" \
	python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; \
	done)

IN := cd "$(ROOT)" &&
RUN := $(IN) .venv/bin/python
PYTEST := $(RUN) -m pytest --timeout=300

# Tests start hundreds of Pythons: what these import is compiled once. Where nothing shall be written
# beside the sources, it is kept in .venv.
ifdef PYTHONDONTWRITEBYTECODE
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(ROOT)/.venv/pycache
endif

# Tests of parts and of faults sync files all the time, and none of them cuts the power. Where memory
# serves as a disk, has room and runs programs, that is where they write; else where pytest does.
IN_MEMORY = $(shell probe="/dev/shm/rocketpipe-$$$$"; [ -w /dev/shm ] && \
	df -Pk /dev/shm | awk 'NR == 2 && $$4 > 4000000 {found = 1} END {exit !found}' && \
	printf '\043!/bin/sh\n' > "$$probe" && chmod 700 "$$probe" && "$$probe" 2>/dev/null && \
	echo PYTEST_DEBUG_TEMPROOT=/dev/shm; rm -f "$$probe")

# Spark in tests and demo talks to itself only; so it starts where the host's name does not resolve.
SPARK_LOCAL_IP ?= 127.0.0.1
export SPARK_LOCAL_IP
# Halves what a JVM costs that lives for a few small queries, and once more where its classes are kept.
SHORT_JVM := JDK_JAVA_OPTIONS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC $$JDK_JAVA_OPTIONS"
CLASSES := .venv/spark-classes.jsa
SHORT_SPARK = $(SHORT_JVM) SPARK_SUBMIT_OPTS="$$( [ ! -f $(CLASSES) ] || \
	printf '%s' '-XX:SharedArchiveFile="$(ROOT)/$(CLASSES)" -Xlog:cds=off -Xlog:cds+dynamic=off') $$SPARK_SUBMIT_OPTS"

# pytest says 5 when it finds no test: a kind that has none yet is told, and is no failure.
OR_NONE = || { status=$$?; [ $$status -eq 5 ] && echo "$@: no such tests yet" || exit $$status; }

#> First steps

.PHONY: help
help: ## List what can be done
	@awk -F ':.*## ' '/^#> /{printf "\n%s\n", substr($$0, 4)} \
		/^[a-z][a-z-]*:.*## /{printf "  make %-14s %s\n", $$1, $$2}' "$(ROOT)/Makefile"

.PHONY: setup
setup: ## Make .venv with everything the rest needs; instant when it is there
	@if [ -z "$(PYTHON)" ]; then \
		echo "RocketPipe needs Python 3.11 or newer, and this machine has none. Install it with" >&2; \
		echo "    sudo apt-get install -y python3 python3-venv" >&2; exit 1; \
	fi
	@"$(PYTHON)" "$(ROOT)/tools/packaging/bootstrap.py"

.PHONY: demo
demo: setup ## The main job from end to end: flights, Spark, kills, proof; DEMO="--fast --keep"
	@$(RUN) -m demo $(DEMO)

#> Checks

.PHONY: test
test: lint types layers unit faults scenario spark snippets ## All that CI runs, in order; stops at the first failure

.PHONY: quick
quick: lint types layers unit ## Between two edits: what needs no server and no Spark

.PHONY: lint
lint: setup ## Formatting and lint rules (ruff)
	@$(RUN) -m ruff format --check .
	@$(RUN) -m ruff check .

.PHONY: format
format: setup ## Rewrite the files the way lint wants them
	@$(RUN) -m ruff check --fix-only .
	@$(RUN) -m ruff format .

.PHONY: types
types: setup ## Types, strictly (mypy)
	@$(RUN) -m mypy

.PHONY: layers
layers: setup ## Who imports whom (import-linter)
	@$(RUN) -c 'from importlinter.cli import lint_imports_command as main; main(["--no-logo"])'

.PHONY: unit
unit: setup ## Tests of single parts, on three processes: now and then one waits
	@$(IN) $(IN_MEMORY) .venv/bin/python -m pytest --timeout=300 -n 3 --dist worksteal -m "not (scenario or spark or compat or soak)" \
		--ignore=tests/faults --ignore=tests/simulation

.PHONY: faults
faults: setup ## Torn files, flipped bits, failing disks, power cuts, killed processes
	@$(IN) $(IN_MEMORY) .venv/bin/python -m pytest --timeout=300 -n 4 --dist worksteal -m "not (spark or compat or soak)" tests/faults tests/simulation

.PHONY: scenario
scenario: setup ## Tests with real servers on sockets, on six processes: they wait most of the time
	@$(PYTEST) -n 6 --dist worksteal -m "scenario and not (spark or compat or soak)" --ignore=tests/faults $(OR_NONE)

.PHONY: spark
spark: spark-classes ## Tests that start Spark, on three processes: much of their time they wait
	@$(IN) $(SHORT_SPARK) .venv/bin/python -m pytest --timeout=300 -n 3 --dist loadgroup \
		-m "spark and not (compat or soak)" $(OR_NONE)

.PHONY: spark-classes
spark-classes: setup ## What stages with Spark have ready: classes that their JVMs map instead of loading
	@$(IN) $(SHORT_JVM) .venv/bin/python -m tools.packaging.spark_classes $(CLASSES)

.PHONY: snippets
snippets: spark-classes ## The code in README.md and docs/ runs as printed
	@$(IN) $(SHORT_SPARK) .venv/bin/python -m tools.docs.snippets

.PHONY: coverage
coverage: setup ## Which lines and branches the unit tests reach
	@$(RUN) -m coverage run -m pytest -q -m "not (scenario or spark or compat or soak)"
	@$(RUN) -m coverage report --show-missing --skip-covered

#> Longer checks, not part of test

.PHONY: compat
compat: setup ## Other people's clients and servers against ours; says what it could not reach
	@$(PYTEST) -rs -m "compat and not soak" $(OR_NONE)

.PHONY: guarded
guarded: setup ## The scenarios once more with access control on: servers ask who it is, clients sign
	@$(PYTEST) --guarded -n 6 --dist worksteal -m "scenario and not (spark or compat or soak)" tests/scenarios

.PHONY: console-walk
console-walk: setup ## Every page of the console in Chromium, looked over by axe; pictures into out/console and docs
	@$(IN) ROCKETPIPE_PICTURES=out/console .venv/bin/python -m pytest -rs -s --timeout=1800 -m compat \
		tests/compat/test_console_walk.py
	@$(IN) for name in overview messages group user; do \
		cp "out/console/console-$$name-light-en.png" "docs/pictures/console-$$name.png"; done; \
		cp out/console/console-reset.png docs/pictures/console-reset.png

.PHONY: node
node: setup ## A Node.js for other people's clients: the machine's, else one from PyPI
	@"$(PYTHON)" "$(ROOT)/tools/packaging/bootstrap.py" --node

.PHONY: wheels
wheels: setup ## Sdist and wheels into dist/, each installed into an empty environment and used
	@$(RUN) -m tools.packaging.wheels $(WHEELS)

.PHONY: soak
soak: setup ## Long runs: a million mutated frames, sanitizers, 100,000 power cuts, 200 kills, 100 failovers, an hour of mixed load
	@$(IN) ROCKETPIPE_FUZZ_FRAMES=1000000 .venv/bin/python -m pytest --timeout=7200 tests/fuzz
	@$(RUN) -m tools.packaging.sanitized
	@$(IN) ROCKETPIPE_CRASH_SEEDS=100000 ROCKETPIPE_KILLS=200 ROCKETPIPE_ALL_FAULTS=1 \
		ROCKETPIPE_HOSTILE_REQUESTS=500000 ROCKETPIPE_RULE_SEEDS=400000 ROCKETPIPE_ELECTION_SEEDS=3000 \
		ROCKETPIPE_REPLICA_SEEDS=100000 \
		.venv/bin/python -m pytest --timeout=0 -n 2 -m "not soak" tests/faults tests/simulation
	@$(IN) ROCKETPIPE_MIXED_SECONDS=3600 \
		.venv/bin/python -m pytest --timeout=0 tests/scenarios/test_mixed_load.py
	@$(RUN) -m pytest --timeout=7200 -m soak $(OR_NONE)
	@$(MAKE) -f "$(ROOT)/Makefile" guarded
	@$(IN) ROCKETPIPE_ALL_FAULTS=1 .venv/bin/python -m pytest --timeout=7200 -n 2 \
		-m "hypothesis and not (scenario or spark or compat or soak)" --ignore=tests/faults

#> Measurements

.PHONY: bench
bench: bench-codec bench-store bench-broker bench-client bench-testkit ## All benchmarks

.PHONY: bench-codec
bench-codec: setup ## Headers, records and frames: microseconds per operation
	@$(RUN) benchmarks/codec.py

.PHONY: bench-store
bench-store: setup ## Appends, recovery, reads and many queues, beside bare loops
	@$(RUN) benchmarks/store.py

.PHONY: bench-timers
bench-timers: setup ## Plain sends while a million messages wait for their time; BENCH="--waiting 0,50000" and the like
	@$(RUN) benchmarks/timers.py $(BENCH)

.PHONY: bench-broker
bench-broker: setup ## Our broker and others under one load, then replicas; BENCH="--quick --peers rocketpipe" and the like
	@$(RUN) -m benchmarks.broker $(BENCH)
	@$(RUN) -m benchmarks.replication $(filter --quick,$(BENCH))
	@$(RUN) -m benchmarks.grpc $(filter --quick,$(BENCH))
	@$(RUN) -m benchmarks.access_control $(if $(filter --quick,$(BENCH)),--rounds 3)

.PHONY: bench-grpc
bench-grpc: setup ## Our gRPC port beside Apache's proxy: sends and receives, CPU a message; BENCH="--quick"
	@$(RUN) -m benchmarks.grpc $(BENCH)

.PHONY: bench-replicas
bench-replicas: setup ## What copies cost, ours and Apache's; BENCH="--quick" or "--parts sends --groups alone,sync" and the like
	@$(RUN) -m benchmarks.replication $(BENCH)

.PHONY: bench-report
bench-report: setup ## docs/benchmarks.md anew: ours, Apache's and others in one run; BENCH="--quick", "--rows 'pull-*' --peers rocketpipe,apache", "--page-only"
	@$(RUN) -m benchmarks.report $(BENCH)

.PHONY: bench-client
bench-client: setup ## Our client beside a bare asyncio client; BENCH="--rounds 5 --uvloop" and the like
	@$(RUN) benchmarks/client.py $(BENCH)
	@$(RUN) benchmarks/blocking.py $(BENCH)
	@$(RUN) -m benchmarks.other_clients $(BENCH)

.PHONY: bench-spark
bench-spark: setup ## Spark on topics beside Parquet, bare batches and a trivial source; BENCH="--rows 200000" is quicker, "--only writes" a part
	@$(RUN) -m benchmarks.spark $(BENCH)

.PHONY: bench-arrow
bench-arrow: setup ## DuckDB asking a topic, beside DuckDB asking Parquet: CPU a question; BENCH="--rows 200000", "--large 4"
	@$(RUN) -m benchmarks.arrow $(BENCH)

.PHONY: bench-celery
bench-celery: setup ## Celery on ours, on Redis and on RabbitMQ: latency, rate, CPU; BENCH="--quick"
	@$(RUN) -m benchmarks.celery $(BENCH)

.PHONY: bench-testkit
bench-testkit: setup ## The test kit: what a cluster for each test, and a leap in time, cost
	@$(RUN) benchmarks/testkit.py $(BENCH)

#> Upkeep

.PHONY: docs
docs: setup ## Print what docs/ tells of the code anew, and render it all: out/site/index.html
	@$(IN) for page in compatibility configuration; do \
		.venv/bin/python -m tools.docs.$$page > .venv/$$page.md && mv .venv/$$page.md docs/reference/$$page.md; done
	@$(RUN) -m tools.docs.reference docs/reference
	@$(IN) .venv/bin/python -m tools.docs.dashboard > .venv/dashboard.json && mv .venv/dashboard.json deploy/grafana/rocketpipe.json
	@$(RUN) -m tools.docs.site

.PHONY: proto
proto: setup ## The classes of RocketMQ's gRPC messages anew, from proxy/v2/messaging.proto
	@$(RUN) -m tools.packaging.proto

.PHONY: pictures
pictures: setup ## The pictures of README.md anew: its commands in two terminals, and the demo's last report
	@$(RUN) -m tools.pictures

.PHONY: requirements
requirements: ## Pin the newest versions that fit requirements/*.in and pyproject.toml (needs uv)
	@$(IN) sh tools/packaging/requirements.sh

.PHONY: clean
clean: ## Remove what building and testing leave behind
	@$(IN) rm -rf build dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache .coverage .coverage.* spark-warehouse metastore_db derby.log
	@$(IN) find . -path ./.venv -prune -o -path ./.git -prune -o \
		-name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: distclean
distclean: clean ## … and .venv, for a start from nothing
	@$(IN) rm -rf .venv src/rocketpipe.egg-info
	@$(IN) find src -name '_*.so' -exec rm -f {} +
