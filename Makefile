# The words of this project; `make check` is what CI runs.
#
#   setup        .venv with the package (editable), its kernels compiled, and all tools
#   demo         the whole way, from a publish to rows counted by Spark
#   lint types test      formatting and rules; mypy --strict; every test, those that failed once more
#   conformance  every feature on the wire; AMQP_URL=amqp://... tests that broker instead of ours
#   check-docs   every block of code on every page, as a reader would run them, each page on a
#                machine of its own (as root); five minutes
#   check-tools  all of conformance against the installed RabbitMQ, which it starts and stops: what
#                we say of RabbitMQ holds, strictly; five minutes (`test` runs a part of it). Then
#                check-docs, the files of the pages for tests in Go and Java, the test classes of RabbitMQ's
#                Java client (as root), tools of the management API,
#                Prometheus with the dashboards, the page in Chromium, RabbitMQ's command-line
#                tools, a RabbitMQ that moves to our broker, packages of the workers of a Spark
#                cluster, spark-submit, Ansible's modules with ours, a wheel with pip, uvx and pipx, and
#                the image in podman
#   interop crash      parts of the tests alone
#   test-slices  the tests inside the process with slices of 0, 1 ms and 1,000 s: the same results
#   mutants      one-line bugs put in, 300 of them: the tests must fail (MUTANTS, MUTANTS_SEED,
#                MUTANTS_WORKERS; docs/testing.md)
#   bench        the benchmark table beside RabbitMQ, twenty minutes, kept in bench/results/
#   bench-quick  the same roughly, in two minutes; BROKERS=ours leaves RabbitMQ out
#   upgrade      renews constraints.txt, the versions that all of this is installed with
#   kubernetes   deploy/kubernetes.yaml, which the chart beside it renders
#   wheels       the files of a release, in dist/: wheels for four Pythons and three systems, twenty
#                minutes (WHEELS='3.12 3.13' those of these Pythons; .ci/wheels)
#   check-wheels  installs those that can run here, and runs them; half an hour
#   pictures     those of docs/the-page.md, in Chromium: eight minutes
#   docs         the pages as a site in build/site/; every link between them is checked
#   check        lint, types, test
#   check-long   check, and then what takes hours:
#   long-search long-crash long-moving long-faults long-management long-compiled long-pure
#                its parts; a night has time for each of them

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory
.DELETE_ON_ERROR:
.DEFAULT_GOAL := check

# Hundreds of processes import this project here: without bytecode each compiles all of it.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
# The versions of what is installed and of what builds it stand still until `make upgrade`.
CONSTRAINED := -m pip install -qq --disable-pip-version-check --constraint constraints.txt
# The first that knows --build-constraint.
INSTALL_PIP := $(CONSTRAINED) 'pip>=25.3'
INSTALL := $(CONSTRAINED) --build-constraint constraints.txt
# Where directories of tests lie if it has room: nothing is synced there, and no inodes are looked for.
MEMORY := $(shell [[ -w /dev/shm ]] && (( $$(df --output=avail /dev/shm | tail -n 1) > 4000000 )) && echo /dev/shm)
IN_MEMORY := $(if $(MEMORY),PYTEST_DEBUG_TEMPROOT=$(MEMORY))
# In memory what passes is removed at once; on ext4 that would slow down those who make files next.
REMOVING := $(if $(MEMORY),--override-ini tmp_path_retention_policy=failed)
# Folders with tests inside the process.
SLICED := $(addprefix tests/,access audit broker change_feed clock connections control definitions groups \
	metadata proxy_protocol statemachine stored system testing tls) $(wildcard tests/test_*.py)
GROUPS := ansible build deploy dev docs environments image tools wheels
UPGRADE := --upgrade
CREATED := .venv/.created
INSTALLED := .venv/.installed
COMPILED := .venv/.compiled
NODE := tests/interop/node
PAGE := tests/management/page
DEPLOY := build/deploy/.installed

# Sizes of check-long, to be given on the command line of make for a shorter or a longer night.
LONG_EXAMPLES ?= 5000
KILL_ROUNDS ?= 500
KILL_SEED ?= $(shell echo $$RANDOM)
MOVING_ROUNDS ?= 50
FAULT_OUTCOMES ?= 12
FAULT_STRIDE ?= 1
ROT_STRIDE ?= 1
MANAGEMENT_KILLS ?= 100
HTTP_CONNECTIONS ?= 12000

KERNELS := $(wildcard amqp_server/broker/routing/_*_py.py amqp_server/broker/routing/_*_c.pxd \
	amqp_server/protocol/_*_py.py amqp_server/protocol/_*_c.pxd \
	appendlog/files/_*_c.pyx appendlog/flushing/_*_c.pyx appendlog/recovery/_*_c.pyx \
	appendlog/layout/_*_py.py appendlog/layout/_*_c.pxd ring/_*_py.py ring/_*_c.pxd)
# The loop is compiled from most of them; `setup.py` looks which.
LOOP := $(shell find amqp_server appendlog metadata offsets ring -name '*.py')

.PHONY: setup demo lint types test conformance check-docs check-tools interop crash mutants bench bench-quick docs pictures \
	check check-long long-search long-crash long-moving long-faults long-management long-compiled \
	long-pure java tools clients node programs prepare bytecode upgrade test-slices kubernetes wheels \
	check-wheels

setup: $(COMPILED) $(INSTALLED)

# With what compiles the kernels, so that they are compiled while the rest is fetched.
$(CREATED): pyproject.toml constraints.txt .ci/python
	python=$$(.ci/python) && { [[ -x $(BIN)/python ]] || "$$python" -m venv .venv; }
	$(BIN)/python $(INSTALL_PIP)
	$(BIN)/python $(INSTALL) --group build
	touch $@

# Pure: the kernels are compiled once, below.
$(INSTALLED): $(CREATED)
	AMQP_SERVER_PURE_PYTHON=1 $(BIN)/python $(INSTALL) \
		--editable '.[spark,lake,demo,oauth2]' --group dev
	touch $@

$(COMPILED): $(CREATED) setup.py $(KERNELS) $(LOOP)
	$(BIN)/python setup.py --quiet build_ext --inplace --parallel 2
	touch $@

java:
	.ci/java

tools:
	.ci/tools

clients: tools
	.ci/tools clients

# What the tests drive; one after the other, because two installations from Debian would meet.
programs:
	$(MAKE) tools
	$(MAKE) java node

# All that `test` needs, side by side; lint and types need `setup` only, and do not wait for the
# programs of the system.
prepare:
	$(MAKE) --jobs=3 --output-sync=target setup programs lint types bytecode

# What each process of the tests would else compile at the same time; `test` says what is wrong.
bytecode: setup
	$(BIN)/python -m pytest --collect-only -qq &>/dev/null || true

# Packages of the clients in Node.js.
node: tools $(if $(wildcard $(NODE)/package.json),$(NODE)/node_modules/.installed)

$(NODE)/node_modules/.installed: $(wildcard $(NODE)/package.json $(NODE)/package-lock.json)
	cd $(NODE) && npm $(if $(wildcard $(NODE)/package-lock.json),ci,install) --no-audit --no-fund
	touch $@

# puppeteer-core and axe-core, for the page in Chromium.
$(PAGE)/node_modules/.installed: $(PAGE)/package.json $(PAGE)/package-lock.json
	cd $(PAGE) && npm ci --no-audit --no-fund
	touch $@

# The newest releases that pyproject.toml allows; the difference is a commit of its own. UPGRADE=
# keeps what still fits, for a new requirement; UPGRADE='--upgrade-package pika' renews one. For every
# Python from 3.11 on and every system: markers tell where releases differ.
upgrade: setup
	$(BIN)/python $(INSTALL) --group environments
	$(BIN)/uv pip compile --quiet $(UPGRADE) --universal --python-version 3.11 --all-extras \
		$(GROUPS:%=--group %) --no-annotate --custom-compile-command 'make upgrade' \
		--no-emit-index-url --no-emit-find-links --output-file constraints.txt pyproject.toml

wheels:
	SYSTEMS='$(SYSTEMS)' .ci/wheels $(WHEELS)

check-wheels: setup wheels
	$(BIN)/python -m pytest -s tests/system/wheels_of_release.py

demo: setup java
	$(BIN)/amqp-server demo

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell
	$(BIN)/lint-imports
	$(BIN)/python -m tests.lint.early_reads
	$(BIN)/python -m tests.lint.silent_patches
	$(BIN)/python -m tests.lint.short_waits

types: setup
	$(BIN)/mypy

# A worker whose test hangs is replaced; when six have been, all that is left would hang, too.
test: setup programs
	$(IN_MEMORY) $(BIN)/python -m pytest $(REMOVING) \
		--numprocesses 4 --dist worksteal --max-worker-restart 5 --second-look

# A slice is over after one step, after 1 ms, or never; other processes have slices of their own.
test-slices: setup
	for seconds in 0 0.001 1000; do \
		$(BIN)/python -m pytest --numprocesses 3 --dist worksteal --second-look \
			--slice-seconds $$seconds $(SLICED); \
	done

conformance: setup
	AMQP_URL='$(AMQP_URL)' $(BIN)/python -m pytest tests/conformance

# One test at a time: what RabbitMQ does not do is waited for, and some chunks of streams and some
# timeouts differ when it has more to do.
check-docs: setup
	$(BIN)/python -m pytest --numprocesses 2 tests/docs/every_page.py

check-tools: tools clients setup $(PAGE)/node_modules/.installed
	$(BIN)/python -m tests.conformance.rabbitmq $(BIN)/python -m pytest tests/conformance
	$(BIN)/python -m pytest tests/management/writes/rabbitmq_conversation.py
	$(BIN)/python -m pytest tests/definitions/with_rabbitmq.py
	$(BIN)/python -m pytest tests/cli/rabbitmq_tools/tools_of_rabbitmq.py
	$(BIN)/python -m pytest tests/cli/rabbitmq_tools/beside_rabbitmq.py
	$(BIN)/python -m pytest -s tests/cli/migrate/from_rabbitmq.py
	$(BIN)/python -m pytest tests/shovel/with_rabbitmq.py
	$(BIN)/python -m pytest tests/spark/packages_of_cluster.py tests/spark/submitted_archive.py
	$(BIN)/python -m venv build/ansible
	build/ansible/bin/python $(INSTALL_PIP)
	build/ansible/bin/python $(INSTALL) --group ansible
	$(BIN)/python -m pytest tests/cli/rabbitmq_tools/with_ansible.py
	$(MAKE) $(DEPLOY)
	$(BIN)/python -m pytest tests/deploy/with_linters.py tests/deploy/with_pacemaker.py
	$(MAKE) check-wheels WHEELS=3.11 SYSTEMS=manylinux_2_28_x86_64
	$(BIN)/python -m pytest tests/deploy/image_in_podman.py
	$(MAKE) check-docs
	$(BIN)/python -m pytest tests/docs/page_of_go.py tests/docs/page_of_java.py
	$(BIN)/python -m pytest tests/java_client/classes_of_java_client.py
	$(BIN)/python $(INSTALL) --group tools
	$(BIN)/python -m pytest tests/management/tools/check_*.py
	$(BIN)/python -m pytest tests/management/metrics/with_prometheus.py
	$(BIN)/python -m pytest $(PAGE)/page_in_chromium.py

pictures: setup $(PAGE)/node_modules/.installed
	$(BIN)/python -m tests.management.page.pictures

interop: tools setup node
	$(BIN)/python -m pytest tests/interop

crash: setup
	$(BIN)/python -m pytest tests/crash

mutants: setup
	$(BIN)/python -m tests.mutants

bench: setup
	$(BIN)/python -m bench table --results bench/results

bench-quick: setup
	$(BIN)/python -m bench table --quick $(if $(BROKERS),--brokers $(BROKERS))

# Helm has 75 MB, and the linters want other releases of what the tests use.
$(DEPLOY): pyproject.toml constraints.txt | setup
	$(BIN)/python -m venv build/deploy
	build/deploy/bin/python $(INSTALL_PIP)
	build/deploy/bin/python $(INSTALL) --group deploy
	touch $@

kubernetes: $(DEPLOY)
	build/deploy/bin/python -m tests.deploy.render_chart >build/kubernetes.yaml
	mv build/kubernetes.yaml deploy/kubernetes.yaml

# README and results beside docs/, as in the repository, so that links between them work in both.
docs: setup
	$(BIN)/python $(INSTALL) --group docs
	rm -rf build/pages
	mkdir -p build/pages/bench
	cp -R README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE deploy docs build/pages/
	cp -R bench/results build/pages/bench/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The tests for themselves: their closing line comes last.
check: prepare
	$(MAKE) test

# One after the other; who finds one interrupted goes on with the next by its name.
check-long: check
	$(MAKE) long-search
	$(MAKE) long-crash
	$(MAKE) long-moving
	$(MAKE) long-faults
	$(MAKE) long-management
	$(MAKE) long-compiled
	$(MAKE) long-pure
	$(MAKE) test-slices
	$(MAKE) mutants

# A part of check-long, between two lines that say when it began and that it was done to its end.
define long
	@echo "$@ begins $$(date '+%F %T')"
	$(1)
	@echo "$@ ends $$(date '+%F %T')"
endef

# Random examples instead of the fixed ones, many of them: the line above the first test has their
# seed. The two state machines do two fifths and three fifths of the number, and that of the broker
# does another fifth with slices of one step.
long-search: setup programs
	$(call long,HYPOTHESIS_PROFILE=long LONG_EXAMPLES=$(LONG_EXAMPLES) \
		$(BIN)/python -m pytest --timeout=0)

# Servers killed at random moments; the kill loops print their seed and what they counted.
long-crash: setup
	$(call long,KILL_ROUNDS=$(KILL_ROUNDS) KILL_SEED=$(KILL_SEED) FAULT_STRIDE=$(FAULT_STRIDE) \
		$(BIN)/python -m pytest -s --timeout=0 tests/crash)

# Machines that die, with a gigabyte in a thousand queues on the volume that moves; skipped without root.
long-moving: setup
	$(call long,MOVING_ROUNDS=$(MOVING_ROUNDS) MOVING_SEED=$(KILL_SEED) MOVING_QUEUES=1000 \
		MOVING_MEGABYTES=1000 $(BIN)/python -m pytest -s --timeout=0 tests/moving)

# Every operation of the disk fails, every power cut has many outcomes, every byte is changed.
long-faults: setup
	$(call long,FAULT_OUTCOMES=$(FAULT_OUTCOMES) FAULT_STRIDE=$(FAULT_STRIDE) \
		ROT_STRIDE=$(ROT_STRIDE) $(BIN)/python -m pytest -s --timeout=0 tests/faults)

# The management server killed under load, and more clients that do nothing than it keeps.
long-management: setup
	$(call long,MANAGEMENT_KILLS=$(MANAGEMENT_KILLS) HTTP_CONNECTIONS=$(HTTP_CONNECTIONS) \
		$(BIN)/python -m pytest -s --timeout=0 tests/management/http/test_process.py \
		tests/management/tools/test_attacks.py)

# The loop compiled, in the process of the tests as well.
long-compiled: setup
	$(call long,AMQP_SERVER_REQUIRE_COMPILED=1 $(BIN)/python -m pytest -p tests.compiled_form \
		--numprocesses 3 --dist worksteal -m 'not spark')

# The kernels interpreted, and what of the code the tests have run.
long-pure: setup programs
	$(call long,AMQP_SERVER_PURE_PYTHON=1 $(BIN)/python -m coverage run -m pytest -m 'not spark')
	$(BIN)/coverage combine
	$(BIN)/coverage report
