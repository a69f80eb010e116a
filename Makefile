# Everything here sets up what it needs: a virtual environment in .venv, a Java for Spark where
# there is none, and node packages where node is installed.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready
NODE_DIR := tests/interop/coaty
NODE_READY := $(NODE_DIR)/node_modules/.ready
GRPC_DIR := tests/interop/grpc
PEERS := $(CURDIR)/build/interop
STEP_CA_VERSION := v0.30.2
STEP_CA := $(PEERS)/step-ca/$(STEP_CA_VERSION)/step-ca
# Spark needs a Java: the machine's own, or the one of a wheel.
EXTRAS := dev$(if $(shell command -v java),,$(shell printf ,java))

.PHONY: help demo test test-again test-costs check check-all audit format bench fuzz fuzz-ports bench-peers sim soak chaos requirements docs proto blocking pictures api dist image step-ca clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 16

demo: $(READY)  ## a two-minute tour
	@$(BIN)/python -m tools.demo

# Many tests wait for nodes, commands and Javas most of their time: more processes than cores keep these busy.
TEST_PROCESSES ?= 6

test: $(READY) node peers browser  ## every test
	@$(BIN)/python -m compileall -q src  # once, and not by each process that begins
	$(BIN)/pytest -n $(TEST_PROCESSES)

test-again: $(READY)  ## those that failed, one at a time; what passes now is flaky, and a bug to mend
	$(BIN)/pytest --last-failed --last-failed-no-failures none -n 0 -v --maxfail 10
	@echo "The tests above failed at first and passed when tried again: each is a bug to mend."

test-costs: $(READY)  ## what each room's tests cost, in wall and CPU; ARGS="tests/log", and `python -m tools.costs --by test` for more
	rm -rf build/costs
	$(BIN)/pytest -p tests.costs -n $(TEST_PROCESSES) $(ARGS)
	@$(BIN)/python -m tools.costs

check: $(READY)  ## ruff with its security rules, mypy --strict, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

audit: $(READY)  ## known vulnerabilities of what is installed, from PyPI; fails where PyPI cannot be asked
	$(BIN)/python -m tools.audit $(ARGS)

format: $(READY)  ## rewrite the sources in the one style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## the speed figures in docs/benchmarks.md
	$(BIN)/python -m bench.codec
	$(BIN)/python -m bench.routing
	$(BIN)/python -m bench.log
	$(BIN)/python -m bench.transport
	$(BIN)/python -m bench.growth
	$(BIN)/python -m bench.path
	$(BIN)/python -m bench.holdups
	$(BIN)/python -m bench.mesh
	$(BIN)/python -m bench.by_python
	$(BIN)/python -m bench.consumers
	$(BIN)/python -m bench.kv
	$(BIN)/python -m bench.schemas
	$(BIN)/python -m bench.console
	$(BIN)/python -m bench.exmp
	$(BIN)/python -m bench.datagrams
	$(BIN)/python -m bench.coaty
	$(BIN)/python -m bench.spark
	$(BIN)/python -m bench.spark_archive
	$(BIN)/python -m bench.spark_typed
	$(BIN)/python -m bench.spark_packets

bench-peers: $(READY)  ## Weft beside Redis, NATS, Kafka, RabbitMQ and Mosquitto; ARGS="--rounds 3 --scale 0.3 --docs" writes the page
	$(BIN)/python -m bench.peers $(ARGS)

fuzz-ports: $(READY)  ## an hour of damaged messages to every port of a running node, with rights of each kind; ARGS="--seconds 60"
	$(BIN)/python tools/fuzz_ports.py $(ARGS)

fuzz: $(READY)  ## a million damaged inputs for every decoder; ARGS="--target emm-parse" for one
	$(BIN)/python tools/fuzz.py $(ARGS)

sim: $(READY)  ## ten thousand simulated meshes, each from a seed of its own, and the gossip of 1,000 nodes; ARGS="--seed 7 --trace" for one
	$(BIN)/python tools/sim.py $(or $(ARGS),--seeds 10000 --jobs 2)
	$(if $(ARGS),,$(BIN)/python -m bench.gossip --check 1000)

soak: $(READY)  ## the long runs: hundreds of kills, of damaged files and of full disks; an hour of gRPC; Spark drivers that die
	WEFT_SOAK=1 $(BIN)/pytest tests/log tests/model tests/wire tests/transport/grpc/test_soak.py tests/interop/grpc tests/spark tests/pipelines tests/gateway

chaos: $(READY)  ## an hour of faults on a mesh of five nodes under load, and a checker; needs root; ARGS="--minutes 60 --seed 7"
	$(BIN)/python -m tools.chaos $(ARGS)

requirements: $(READY)  ## which tests prove which requirement; ARGS=--strict fails on open ones
	@$(BIN)/python tools/requirements.py $(ARGS)

check-all: check  ## check, and every requirement proven by the last tests: for a machine that has everything
	@$(BIN)/python tools/requirements.py --strict

api: $(READY)  ## write down what is public, in docs/api.txt
	$(BIN)/python -m tools.api

dist: $(READY)  ## a wheel and an sdist, tried in empty environments, with SBOM and licences
	$(BIN)/python -m tools.dist

image: $(READY)  ## the container image, with buildah; ARGS="--base debian" where no registry of images can be reached
	$(BIN)/python -m tools.image $(ARGS)

docs: $(READY)  ## a site from docs/, with a search box, in build/site
	$(BIN)/python -m pip install -q -e ".[docs]"
	$(BIN)/mkdocs build --quiet --strict
	@echo "open build/site/index.html"

proto: $(READY)  ## generate code from the .proto files again
	$(BIN)/python tools/proto.py

blocking: $(READY)  ## write the blocking client's methods again, from the asyncio client
	$(BIN)/python -m tools.blocking

pictures: $(READY)  ## draw the pictures of ARCHITECTURE.md and docs/, the rooms from their imports
	$(BIN)/python -m tools.pictures

step-ca: $(STEP_CA)  ## a real step-ca for its tests, from its sources, as `make test` does where Go is: minutes of all cores at first, seconds from Go's caches

$(STEP_CA):
	mkdir -p $(@D)
	GOBIN=$(@D) CGO_ENABLED=0 nice -n 19 go install github.com/smallstep/certificates/cmd/step-ca@$(STEP_CA_VERSION)

clean:  ## remove what the other targets made
	rm -rf .venv build dist $(NODE_DIR)/node_modules $(BROWSER_DIR)/node_modules $(GRPC_DIR)/js/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -e '.[$(EXTRAS)]'
	@touch $@

# Interop tests talk to the reference Coaty agent. Without node they are skipped, and say so.
.PHONY: node
ifneq ($(shell command -v npm),)
node: $(NODE_READY)
else
node:
	@echo "npm not found: tests against the reference Coaty agent will be skipped"
endif

$(NODE_READY): $(NODE_DIR)/package-lock.json
	cd $(NODE_DIR) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# The console's story in a browser needs packages, and a browser of the machine: none is downloaded.
BROWSER_DIR := tests/console/browser
.PHONY: browser
ifneq ($(and $(shell command -v npm),$(shell command -v chromium chromium-browser google-chrome)),)
browser: $(BROWSER_DIR)/node_modules/.ready
else
browser:
	@echo "npm or a browser (chromium) not found: the console's story in a browser will be skipped"
endif

$(BROWSER_DIR)/node_modules/.ready: $(BROWSER_DIR)/package-lock.json
	cd $(BROWSER_DIR) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# Foreign peers of tests/interop: gRPC of other languages, and a real CA. What cannot be built here is skipped by the
# tests, which say so. Beside them, because it waits for other things than they do: an archive of Spark's classes.
.PHONY: peers build-peers
peers:
	@$(MAKE) -k -j 3 --no-print-directory build-peers || echo "some foreign peers could not be built: their tests will be skipped"
JAVA_EXAMPLE := examples/clients/java
SPARK_CLASSES := build/spark-classes.jsa
build-peers: \
	$(if $(shell command -v java),$(SPARK_CLASSES)) \
	$(if $(shell command -v npm),$(GRPC_DIR)/js/node_modules/.ready) \
	$(if $(shell command -v go),$(PEERS)/go/.ready $(PEERS)/go/weft-example $(STEP_CA)) \
	$(if $(and $(shell command -v mvn),$(shell command -v javac)),$(PEERS)/java/.ready $(JAVA_EXAMPLE)/target/.ready $(PEERS)/spark-tables/.ready)

$(GRPC_DIR)/js/node_modules/.ready: $(GRPC_DIR)/js/package-lock.json
	cd $(GRPC_DIR)/js && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

$(PEERS)/go/.ready: $(GRPC_DIR)/go/echo.go $(GRPC_DIR)/go/go.sum
	mkdir -p $(PEERS)/go && cd $(GRPC_DIR)/go && go build -o $(PEERS)/go/ . github.com/summerwind/h2spec/cmd/h2spec
	@touch $@

GO_EXAMPLE := examples/clients/go
GO_PACKAGE := paths=source_relative,Mmesh.proto=example.org/weft/mesh
MESH_PROTO := src/weft/wire/mesh/mesh.proto
$(PEERS)/go/weft-example: $(GO_EXAMPLE)/main.go $(GO_EXAMPLE)/go.sum $(MESH_PROTO) | $(READY)
	mkdir -p $(PEERS)/go/bin $(GO_EXAMPLE)/mesh
	cd $(GO_EXAMPLE) && GOBIN=$(PEERS)/go/bin go install tool
	PATH=$(PEERS)/go/bin:$$PATH $(BIN)/python -m grpc_tools.protoc -I$(dir $(MESH_PROTO)) --go_out=$(GO_EXAMPLE)/mesh --go_opt=$(GO_PACKAGE) \
		--go-grpc_out=$(GO_EXAMPLE)/mesh --go-grpc_opt=$(GO_PACKAGE) mesh.proto
	cd $(GO_EXAMPLE) && go build -o $@ .

$(PEERS)/java/.ready: $(GRPC_DIR)/java/Echo.java $(GRPC_DIR)/java/pom.xml
	mvn -q -B -f $(GRPC_DIR)/java org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory=$(PEERS)/java
	javac -encoding UTF-8 -cp '$(PEERS)/java/*' -d $(PEERS)/java $(GRPC_DIR)/java/Echo.java
	@touch $@

SPARK_TABLES := tests/interop/spark_tables
$(PEERS)/spark-tables/.ready: $(SPARK_TABLES)/pom.xml
	mvn -q -B -f $(SPARK_TABLES) org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
		-DoutputDirectory=$(@D)/jars -DincludeGroupIds=io.delta,org.apache.iceberg,io.unitycatalog
	$(PYTHON) -m venv $(@D)/venv && $(@D)/venv/bin/python -m pip install -q 'pyspark>=4.1,<4.2'
	@touch $@

# Half of what a Java of Spark does in a test is loading classes, which costs little from an archive.
$(SPARK_CLASSES): tests/spark/archive_classes.py $(READY)
	@mkdir -p $(@D) && $(BIN)/python -m compileall -q src
	$(BIN)/python -m tests.spark.archive_classes $@ >$(@D)/spark-classes.log 2>&1

$(JAVA_EXAMPLE)/target/.ready: $(JAVA_EXAMPLE)/src/Weft.java $(JAVA_EXAMPLE)/pom.xml $(MESH_PROTO)
	mvn -q -B -f $(JAVA_EXAMPLE) package
	@touch $@
