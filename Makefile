# The front door.  CMakeLists.txt does the building; these targets say what one usually wants from it.
#
# SPDX-License-Identifier: Apache-2.0
BUILD  ?= build
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
CMAKE_FLAGS ?=
VENV    = $(BUILD)/venv

CTEST   = ctest --output-on-failure --no-label-summary --no-tests=error --timeout 900 -j $(JOBS)
PYTEST  = timeout -k 10 2400 $(VENV)/bin/python -m pytest
COMPILE = cmake --build $(1) -j $(JOBS)

MAKEFLAGS += --no-print-directory
.NOTPARALLEL:
.PHONY: build python demo test test-gpu test-gpu-sanitize pytest oracle oracle-venv bench check install clean format help setup asan tsan clang-build format-check layers setup-check

build: ## the library, the examples, the tests and the benchmarks, in build/
	@sh tools/setup.sh build
	cmake -S . -B $(BUILD) -DGLUON_WERROR=ON $(CMAKE_FLAGS)
	$(call COMPILE,$(BUILD))

demo: python ## train LeNet on Fashion-MNIST in C and in Python, export it, run the exported model from C
	@sh tools/setup.sh data
	$(call COMPILE,$(BUILD)) --target example_lenet example_deploy gluon_command
	sh tools/demo.sh $(BUILD)

python: ## the Python package: build/venv/bin/python then imports mxnet from this tree
	@sh tools/setup.sh build
	@sh tools/venv.sh $(VENV) numpy pytest
	cmake -S . -B $(BUILD) -DGLUON_WERROR=ON -DGLUON_PYTHON=ON -DPython3_EXECUTABLE=$(abspath $(VENV))/bin/python $(CMAKE_FLAGS)
	$(call COMPILE,$(BUILD)) --target python
	@echo $(abspath $(BUILD))/python > $$($(VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/gluon.pth

test: setup build asan python oracle-venv ## all tests: C, C under the sanitizers, Python, comparison with MXNet 1.9.1
	cd $(BUILD) && $(CTEST)
	cd $(BUILD)/asan && $(CTEST) -LE release-only
	$(PYTEST) tests/python tests/oracle

pytest: python ## the Python tests only
	$(PYTEST) tests/python

oracle: python oracle-venv ## ours against the archived MXNet 1.9.1, in an environment of its own
	$(PYTEST) tests/oracle

test-gpu: ## on a machine with a GPU: everything on gpu(0) beside the CPU; needs what the machine has, no network
	@CMAKE_FLAGS="$(CMAKE_FLAGS)" GPU_TESTS="$(GPU_TESTS)" sh tools/test_gpu.sh $(BUILD)/gpu

test-gpu-sanitize: ## the operator samples under compute-sanitizer: memcheck, then racecheck
	@CMAKE_FLAGS="$(CMAKE_FLAGS)" sh tools/test_gpu.sh $(BUILD)/gpu sanitize

bench: python ## measure, beside the machine's limits and NumPy; PEERS="mxnet torch jax onnxruntime openvino": beside them
	@sh tools/setup.sh build bench
	cmake -S . -B $(BUILD) $(CMAKE_FLAGS)
	$(call COMPILE,$(BUILD))
	PEERS="$(PEERS)" sh tools/bench.sh $(BUILD)

check: setup-check layers format-check clang-build asan ## layers, format, clang without warnings, sanitizers
	cd $(BUILD)/asan && $(CTEST) -LE release-only

install: build ## into PREFIX (default /usr/local); DESTDIR is respected
	cmake --install $(BUILD) --prefix $(PREFIX)

format: ## rewrite the sources in the house style
	@sh tools/format.sh

clean: ## remove everything that was built
	rm -rf $(BUILD)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-17s %s\n", $$1, $$2}' Makefile

# ---- parts of the above ----
setup:
	@sh tools/setup.sh build test data

setup-check:
	@sh tools/setup.sh build test data check

oracle-venv:
	@sh tools/venv.sh $(BUILD)/oracle mxnet==1.9.1 numpy==1.23.5 || echo "oracle: mxnet==1.9.1 cannot be had: its tests will be skipped"

asan:
	cmake -S . -B $(BUILD)/asan -DCMAKE_BUILD_TYPE=Debug -DGLUON_SANITIZE=ON -DGLUON_WERROR=ON -DGLUON_BENCH=OFF $(CMAKE_FLAGS)
	$(call COMPILE,$(BUILD)/asan)

# Threads under the thread sanitizer: plans, hybridized blocks, training steps.  Not part of `check`.
THREADED := test_exec_plan test_gluon_hybrid_changes test_gluon_train_step
tsan:
	cmake -S . -B $(BUILD)/tsan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DGLUON_TSAN=ON -DGLUON_BENCH=OFF $(CMAKE_FLAGS)
	$(call COMPILE,$(BUILD)/tsan) --target $(THREADED)
	cd $(BUILD)/tsan && for name in $(THREADED); do TSAN_OPTIONS=halt_on_error=1 tests/$$name || exit 1; done

clang-build:
	cmake -S . -B $(BUILD)/clang -DCMAKE_C_COMPILER=clang -DGLUON_WERROR=ON $(CMAKE_FLAGS)
	$(call COMPILE,$(BUILD)/clang)

format-check:
	@sh tools/format.sh --check

layers:
	@sh tools/check_layers.sh
