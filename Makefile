# Builds rnnbridge into a virtual environment and proves it. Needs Python 3.10+, gcc and make; pip brings the rest.

PYTHON ?= python3
VENV ?= .venv
LINT_VENV ?= .venv-lint
# Where PyPI's torch would bring gigabytes of CUDA, README.md names the index of the CPU builds.
TORCH ?= torch==2.13.0
# FULL=1 makes it an error to leave a framework out.
FULL ?=
PYTEST_ARGS ?=
BENCH_ARGS ?=
BENCH_OUT = benchmarks/results/$(if $(BENCH_ARGS),own,$(if $(FULL),full,short))

comma := ,
PIP_INSTALL = -m pip install --quiet --disable-pip-version-check
BUILT_FROM := pyproject.toml tools/build_backend.py $(shell find native -type f)
TYPED := build/typed/rnnbridge
# What of the suite runs under sanitizers; what no sanitizer sees more of with every set of kernels, under one.
NATIVE_TESTS := tests/native tests/test_dropout.py $(wildcard tests/test_engine*.py) \
	$(addprefix tests/test_training,.py _fuzz.py _layers.py _plan.py _threads.py)
THREADED_TESTS := tests/test_engine_exit.py $(wildcard tests/test_*_threads.py) tests/test_training.py
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
C_SOURCES = $(shell find native examples tests benchmarks -name '*.c' -o -name '*.h' -o -name '*.cpp')

# Frameworks that live with no other: what to install, beside what the tests themselves import.
mxnet_PACKAGES := mxnet==1.9.1 numpy==1.23.5 h5py==3.8.0
paddle_PACKAGES := paddlepaddle==3.3.1 setuptools
onednn_PACKAGES := onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0
FRAMEWORKS := mxnet paddle onednn

.PHONY: help demo test test-frameworks bench lint sanitize clean
.DELETE_ON_ERROR:

help:
	@echo "make demo    convert a Keras GPU model to Keras, PyTorch and ONNX weights, and prove the numbers"
	@echo "make test    run the whole suite against every framework that has a wheel for this Python"
	@echo "make test-frameworks  run $(FRAMEWORKS), each in an environment of its own, against what is read and written"
	@echo "make bench   measure the engine beside every peer: a minute; FULL=1 the whole grid, hours"
	@echo "make lint    check style and types with the pinned tools"
	@echo "make sanitize  run the native part of the suite under the address, undefined-behaviour and thread sanitizers"
	@echo "make clean   remove the virtual environments and everything built"
	@echo "Variables: PYTHON=$(PYTHON) VENV=$(VENV) TORCH=$(TORCH) PYTEST_ARGS=$(PYTEST_ARGS)"

demo: $(VENV)/.demo
	$(VENV)/bin/python examples/gpu_to_cpu.py

test: $(VENV)/.test
	$(VENV)/bin/python -m pytest $(PYTEST_ARGS)

test-frameworks: $(FRAMEWORKS:%=.venv-%/.packages)
	for one in $(FRAMEWORKS); do \
		PYTHONPATH=. .venv-$$one/bin/python -m pytest -q -rs -p no:cacheprovider tests/test_$${one}_live.py || exit 1; done

# BENCH_ARGS instead of the grid: make bench BENCH_ARGS='--shape 64,20,250,200 --threads 1,2'
bench: $(VENV)/.bench $(VENV)/lib/onednn_peer.so
	RNNBRIDGE_BENCH_ONEDNN=$(abspath $(VENV))/lib/onednn_peer.so COLUMNS=120 $(VENV)/bin/rnnbridge bench \
		$(if $(BENCH_ARGS),$(BENCH_ARGS),$(if $(FULL),,--short)) --json $(BENCH_OUT).json --plot $(BENCH_OUT).png \
		> $(BENCH_OUT).txt
	cat $(BENCH_OUT).txt

lint: $(LINT_VENV)/.lint
	$(LINT_VENV)/bin/ruff check .
	$(LINT_VENV)/bin/ruff format --check .
	rm -rf $(TYPED) && mkdir -p $(TYPED)
	ln -s $(CURDIR)/rnnbridge/* $(CURDIR)/converters $(TYPED)/
	$(LINT_VENV)/bin/mypy
	$(LINT_VENV)/bin/clang-format --dry-run -Werror $(C_SOURCES)

# C programs, one of which trains every cell on exactly sized arrays, and the native part of the suite, with the library
# under one sanitizer after another.
sanitize: $(LINT_VENV)/.lint $(LINT_VENV)/.cmake
	$(MAKE) --no-print-directory sanitized SANITIZER='address;undefined' NAME=address RUNTIMES='libasan.so libubsan.so' \
		DRAWS=120 TESTS='$(NATIVE_TESTS) --deselect tests/native/test_gate_order.py'
	$(MAKE) --no-print-directory sanitized SANITIZER=thread NAME=thread RUNTIMES=libtsan.so \
		DRAWS=40 TESTS='$(THREADED_TESTS) -k "not instruction_set and not activation"'

# Kept out of the reports, each because it is not the engine's:
#   detect_leaks=0          Python frees much at its end only, or never; the C programs are checked for leaks
#   die_after_fork=0        a forked child that starts threads is what some tests are about
#   OPENBLAS_NUM_THREADS=1  the threads of NumPy's OpenBLAS wait for each other in code that no sanitizer was built into
.PHONY: sanitized
sanitized: export ASAN_OPTIONS = detect_leaks=0
sanitized: export TSAN_OPTIONS = die_after_fork=0
sanitized: export OPENBLAS_NUM_THREADS = 1
sanitized: export RNNBRIDGE_TRAINING_DRAWS = $(DRAWS)
sanitized:
	$(LINT_VENV)/bin/cmake -S native -B build/$(NAME) -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(LINT_VENV)/bin/ninja \
		-DCMAKE_BUILD_TYPE=Release -DRNNBRIDGE_VERSION=$(VERSION) '-DRNNBRIDGE_SANITIZE=$(SANITIZER)'
	$(LINT_VENV)/bin/cmake --build build/$(NAME)
	for program in tests/native/training examples/train examples/infer; do \
		$(CC) -g -fsanitize=$(subst ;,$(comma),$(SANITIZER)) -Inative/include $$program.c -o build/$(NAME)/program \
			-Lbuild/$(NAME) -lrnnbridge -Wl,-rpath,$(CURDIR)/build/$(NAME) -lm -pthread && \
			ASAN_OPTIONS= build/$(NAME)/program || exit 1; done
	LD_PRELOAD="$(foreach one,$(RUNTIMES),$(shell $(CC) -print-file-name=$(one)))" \
		RNNBRIDGE_LIBRARY=$(CURDIR)/build/$(NAME)/librnnbridge.so \
		$(LINT_VENV)/bin/python -m pytest -q -p no:cacheprovider --capture=sys $(TESTS)

clean:
	rm -rf $(VENV) $(LINT_VENV) $(FRAMEWORKS:%=.venv-%) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is written last, so that an install that failed is tried again.

$(VENV)/.package: $(BUILT_FROM)
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python $(PIP_INSTALL) --editable '.[dev]'
	touch $@

$(VENV)/.demo: $(VENV)/.package requirements/peers.txt tools/install_peers.py
	$(VENV)/bin/python tools/install_peers.py --torch '$(TORCH)' --only torch onnx onnxruntime safetensors
	touch $@

$(VENV)/.test: $(VENV)/.package requirements/peers.txt tools/install_peers.py
	$(VENV)/bin/python tools/install_peers.py --torch '$(TORCH)' $(if $(FULL),--full)
	touch $@

.venv-%/.packages: Makefile
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python $(PIP_INSTALL) $($*_PACKAGES) click h5py hypothesis numpy pytest rich
	touch $@

$(VENV)/.bench: $(VENV)/.package requirements/peers.txt tools/install_peers.py
	$(VENV)/bin/python tools/install_peers.py --torch '$(TORCH)' --only torch onnx onnxruntime safetensors tensorflow-cpu \
		keras matplotlib
	touch $@

# oneDNN from pip; where it has no wheel, the benchmark says that this peer is not here.
$(VENV)/lib/onednn_peer.so: benchmarks/onednn_peer.cpp $(VENV)/.package
	-$(VENV)/bin/python $(PIP_INSTALL) $(onednn_PACKAGES) && \
		$(CXX) -O2 -std=c++17 -shared -fPIC $< -I$(VENV)/include -L$(VENV)/lib -ldnnl \
		-Wl,-rpath,$(abspath $(VENV))/lib -o $@

$(LINT_VENV)/.cmake: $(LINT_VENV)/.lint
	$(LINT_VENV)/bin/python $(PIP_INSTALL) cmake ninja
	touch $@

$(LINT_VENV)/.lint: pyproject.toml
	$(PYTHON) -m venv $(LINT_VENV)
	$(LINT_VENV)/bin/python $(PIP_INSTALL) --config-settings wheel.cmake=false --editable '.[dev]'
	touch $@
