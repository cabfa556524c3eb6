# Everything a newcomer needs: `make demo`, `make test`, `make cluster-up`. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CLUSTER := .volsched-cluster
PYTEST_ARGS ?=
# What is built for the tests, and what mypy knows of files with the same content: shared by all checkouts.
CACHE := $(or $(VOLSCHED_CACHE),$(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME)/volsched),$(HOME)/.cache/volsched)
# A value makes a failed test fail the run although a second try might pass.
STRICT ?=
SUITE = $(BIN)/python -m tests.suite $(if $(STRICT),--strict)
# The pages of which to take pictures; empty: all.
PICTURES ?=
# The module of test-of.
F ?=
# Where it is set, every process that a test starts compiles volsched anew.
unexport PYTHONDONTWRITEBYTECODE
# The plugin of test-plugin, written with - or _, the plugins that there are, and the tests that hold for all of them.
P ?=
P_NAME = $(subst -,_,$(P))
PLUGINS = $(patsubst plugins/%/__init__.py,%,$(wildcard plugins/*/__init__.py))
OF_ALL_PLUGINS = $(wildcard tests/plugins/test_*.py) tests/test_registry.py \
	$(patsubst %,tests/framework/test_%.py,boundary checked dispatch runs)
# What a release is made of; docs/releasing.md explains. ENGINE may be a path or have flags, as `sudo podman`.
ENGINE ?= $(firstword $(foreach name,buildah podman docker,$(if $(shell command -v $(name)),$(name))))
ENGINE_NAME = $(notdir $(lastword $(filter %buildah %podman %docker,$(ENGINE))))
IMAGE ?= docker.io/library/volsched
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
REVISION := $(shell git describe --always --dirty --abbrev=40 --exclude '*' 2>/dev/null || echo unknown)
SOURCE := $(shell git config --get remote.origin.url 2>/dev/null | sed -E 's,//[^@/]*@,//,' | grep -E '^https?://' || echo unknown)
BUILD_FLAGS ?=
SAVE_FLAGS ?=
ARCH := $(shell uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
ARCHIVE = dist/volsched-$(VERSION)-$(ARCH).tar
SAVE_buildah = push $(SAVE_FLAGS) $(IMAGE):$(VERSION) docker-archive:$(ARCHIVE):$(IMAGE):$(VERSION)
SAVE_podman = save $(SAVE_FLAGS) --format docker-archive --output $(ARCHIVE) $(IMAGE):$(VERSION)
SAVE_docker = save $(SAVE_FLAGS) --output $(ARCHIVE) $(IMAGE):$(VERSION)
LOCK := pip-compile --quiet --generate-hashes --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	--no-strip-extras --allow-unsafe

.PHONY: help demo test coverage durations coverage-map test-of test-tools judges plans thorough everything unit compiled \
	test-plugin known-plugin check lint types contracts cluster-up cluster-down conformance image archive sbom release real-node real-node-up \
	real-node-shell real-node-down monitoring chart krew vendor pictures current-pictures schemas lock clean

help: ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/run.stamp: requirements/run.lock pyproject.toml
	@echo "installing volsched into $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/run.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

$(VENV)/dev.stamp: requirements/dev.lock pyproject.toml
	@echo "installing volsched and its test tools into $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@ $(VENV)/run.stamp

demo: $(VENV)/run.stamp ## schedule the example cluster in memory and show who goes where and why the rest waits
	$(BIN)/volsched simulate -f manifests/examples --output table
	@echo; echo "The same as a page, to look around in: $(BIN)/volsched ui -f manifests/examples, then the link that it prints"

test: compiled ## lint, types, import contracts and all tests, those against a real control plane included
	$(SUITE) -- $(PYTEST_ARGS)

coverage: compiled ## `make test` with the lines that no test reaches; takes half as long again
	$(SUITE) --coverage -- $(PYTEST_ARGS)
	$(BIN)/coverage combine --keep --quiet .test-results/.coverage.*
	$(BIN)/coverage report --skip-covered

durations: compiled ## run `make test` and record how long tests take, so that the longest start first
	$(SUITE) --record-durations -- $(PYTEST_ARGS)

coverage-map: compiled ## run `make test` and record which tests execute which module, for test-of
	$(SUITE) --contexts -- $(PYTEST_ARGS)
	$(BIN)/python -m tests.suite.coverage_map --record .test-results/.coverage.*

test-of: $(VENV)/dev.stamp ## the tests that execute a module: make test-of F=volsched/mirror/pods.py
	@$(BIN)/python -m tests.suite.coverage_map $(F) -- $(PYTEST_ARGS)

test-tools: compiled ## the tests of what tests use: control plane, fault proxy, builds of programs, containers
	$(BIN)/python -m tests.tools $(PYTEST_ARGS)

judges: compiled ## ask kube-scheduler and Kubernetes' libraries again, and compare with their recorded answers
	$(BIN)/python -m tests.judges

plans: $(VENV)/dev.stamp ## record anew what sessions decide in the recorded scenarios, and show what has changed
	$(BIN)/python -m tests.plans record

thorough: $(VENV)/dev.stamp ## the tests that need no other process, property tests with 2,000 examples instead of 40: hours
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not process" --hypothesis-profile=thorough $(PYTEST_ARGS)

everything: coverage test-tools judges conformance thorough ## all of the above, Kubernetes' own specs and the short drills

unit: $(VENV)/dev.stamp ## the tests that need no other process, but for the slow ones: a minute
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not process and not slow" $(PYTEST_ARGS)

compiled: $(VENV)/dev.stamp
	@$(BIN)/python -m compileall -q volsched actions plugins tools tests

known-plugin:
	@test -n "$(filter $(P_NAME),$(PLUGINS))" || { echo "make test-plugin P=NAME, where NAME is one of: $(PLUGINS)" >&2; exit 2; }

test-plugin: known-plugin $(VENV)/dev.stamp ## the tests of a plugin and those of all plugins: make test-plugin P=capacity_card
	$(BIN)/python -m pytest -n 2 -m "not process" $(wildcard $(addprefix tests/,plugins/$(P_NAME) docs/test_$(P_NAME).py)) \
		$(OF_ALL_PLUGINS) $(PYTEST_ARGS)
	$(BIN)/python -m pytest -n 2 tests/properties/test_table.py -k "any or $(subst _,-,$(P_NAME))" $(PYTEST_ARGS)

check: lint types contracts current-pictures ## lint, types, import contracts, and whether the pictures are current

lint: $(VENV)/dev.stamp ## ruff, and hadolint for the Dockerfile
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/hadolint Dockerfile

types: $(VENV)/dev.stamp ## mypy
	$(BIN)/mypy --cache-dir $(CACHE)/mypy

contracts: $(VENV)/dev.stamp ## import-linter
	$(BIN)/lint-imports

cluster-up: $(VENV)/dev.stamp ## a real local control plane with the example cluster and volsched running on it
	$(BIN)/python -m tools.playground up --folder $(CLUSTER) --examples manifests/examples

cluster-down: ## end what cluster-up started
	$(BIN)/python -m tools.playground down --folder $(CLUSTER)

conformance: $(VENV)/dev.stamp ## Kubernetes' own specs of scheduling and DRA with volsched in kube-scheduler's place, 25 minutes
	$(BIN)/python -m tests.conformance

image: ## the image of this checkout, by buildah, podman or docker, whichever is there
	@test -n "$(ENGINE)" || { echo "no buildah, podman or docker on PATH; name one of them: make image ENGINE=..." >&2; exit 1; }
	$(ENGINE) build $(BUILD_FLAGS) --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) \
		--build-arg SOURCE=$(SOURCE) --tag $(IMAGE):$(VERSION) .

archive: image ## that image as a file in dist/
	@mkdir -p $(dir $(ARCHIVE)) && rm -f $(ARCHIVE)
	$(ENGINE) $(SAVE_$(ENGINE_NAME))

sbom: $(VENV)/dev.stamp ## what is in the file in dist/, as SPDX beside it; after `make archive`
	@test -f $(ARCHIVE) || { echo "there is no $(ARCHIVE); make it first: make archive" >&2; exit 1; }
	$(BIN)/python -m tools.syft scan docker-archive:$(ARCHIVE) --output spdx-json=$(ARCHIVE:.tar=.spdx.json)

release: archive sbom ## the image, what is in it, and their checksums, in dist/
	cd dist && sha256sum volsched-$(VERSION)-$(ARCH).* > volsched-$(VERSION)-$(ARCH).sha256

real-node: $(VENV)/dev.stamp ## the image on a real kubelet with containerd: tests/realnode, 13 minutes, the first time ten more; takes root
	$(BIN)/python -m tests.realnode.devices
	$(BIN)/python -m tools.syft version
	$(BIN)/python -m tools.realnode run $(BIN)/python -m pytest tests/realnode $(PYTEST_ARGS)

real-node-up: $(VENV)/dev.stamp ## leave that node running; look around with `make real-node-shell`
	$(BIN)/python -m tools.realnode up

real-node-shell: $(VENV)/dev.stamp ## a shell inside, where kubectl speaks to the node's cluster
	$(BIN)/python -m tools.realnode enter $${SHELL:-/bin/sh}

real-node-down: $(VENV)/dev.stamp ## end what real-node-up started
	$(BIN)/python -m tools.realnode down

monitoring: $(VENV)/dev.stamp ## write the dashboards, and the alert rules for the Prometheus operator
	$(BIN)/python -m monitoring

chart: $(VENV)/dev.stamp ## write the README of the Helm chart, from its values
	$(BIN)/python -m charts

krew: $(VENV)/dev.stamp ## kubectl's plugin for krew in dist/: the archive, and the manifest that names it
	$(BIN)/python -m release.krew $(filter-out unknown,$(SOURCE))

vendor: $(VENV)/dev.stamp ## fetch what the page has of others from npm, at fixed versions
	$(BIN)/python -m release.vendor

pictures: $(VENV)/dev.stamp ## take the pictures of the page: a few in docs/pictures, all in docs/pictures/all
	$(BIN)/python -m release.pictures $(PICTURES)

current-pictures: $(VENV)/dev.stamp ## whether docs/pictures show the present page
	$(BIN)/python -m release.pictures --check

schemas: $(VENV)/dev.stamp ## write which fields objects have, as a real kube-apiserver says
	$(BIN)/python -m tools.schemas

lock: $(VENV)/dev.stamp ## resolve the lock files anew
	$(BIN)/python -m pip install --quiet pip-tools
	cd requirements && ../$(BIN)/$(LOCK) --output-file=run.lock ../pyproject.toml
	cd requirements && ../$(BIN)/$(LOCK) --extra=dev --output-file=dev.lock ../pyproject.toml
	cd requirements && ../$(BIN)/$(LOCK) --build-deps-for=wheel --only-build-deps --output-file=build.lock ../pyproject.toml

clean: ## remove what was installed and cached in this folder
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .test-results build *.egg-info
