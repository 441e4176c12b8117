# Builds rnnbridge into a virtual environment and proves it. Needs Python 3.10+, gcc and make; pip brings the rest.

PYTHON ?= python3
VENV ?= .venv
LINT_VENV ?= .venv-lint
# Where PyPI's torch would bring gigabytes of CUDA, README.md names the index of the CPU builds.
TORCH ?= torch==2.13.0
# FULL=1 makes it an error to leave a framework out.
FULL ?=
PYTEST_ARGS ?=

comma := ,
PIP_INSTALL = -m pip install --quiet --disable-pip-version-check
BUILT_FROM := pyproject.toml tools/build_backend.py $(shell find native -type f)
TYPED := build/typed/rnnbridge
C_SOURCES = $(shell find native examples tests -name '*.c' -o -name '*.h' -o -name '*.cpp')

.PHONY: help demo test lint sanitize clean
.DELETE_ON_ERROR:

help:
	@echo "make demo    convert a Keras GPU model to Keras, PyTorch and ONNX weights, and prove the numbers"
	@echo "make test    run the whole suite against every framework that has a wheel for this Python"
	@echo "make lint    check style and types with the pinned tools"
	@echo "make sanitize  train in C under the address, undefined-behaviour and thread sanitizers"
	@echo "make clean   remove the virtual environments and everything built"
	@echo "Variables: PYTHON=$(PYTHON) VENV=$(VENV) TORCH=$(TORCH) PYTEST_ARGS=$(PYTEST_ARGS)"

demo: $(VENV)/.demo
	$(VENV)/bin/python examples/gpu_to_cpu.py

test: $(VENV)/.test
	$(VENV)/bin/python -m pytest $(PYTEST_ARGS)

lint: $(LINT_VENV)/.lint
	$(LINT_VENV)/bin/ruff check .
	$(LINT_VENV)/bin/ruff format --check .
	rm -rf $(TYPED) && mkdir -p $(TYPED)
	ln -s $(CURDIR)/rnnbridge/* $(CURDIR)/converters $(TYPED)/
	$(LINT_VENV)/bin/mypy
	$(LINT_VENV)/bin/clang-format --dry-run -Werror $(C_SOURCES)

# A C program that trains every cell on exactly sized arrays, built with the library under one sanitizer after another.
sanitize: $(LINT_VENV)/.lint $(LINT_VENV)/.cmake
	$(MAKE) --no-print-directory sanitized SANITIZER='address;undefined' NAME=address
	$(MAKE) --no-print-directory sanitized SANITIZER=thread NAME=thread

.PHONY: sanitized
sanitized:
	$(LINT_VENV)/bin/cmake -S native -B build/$(NAME) -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(LINT_VENV)/bin/ninja \
		-DCMAKE_BUILD_TYPE=Release -DRNNBRIDGE_VERSION=sanitized '-DRNNBRIDGE_SANITIZE=$(SANITIZER)'
	$(LINT_VENV)/bin/cmake --build build/$(NAME)
	for program in tests/native/training examples/train examples/infer; do \
		$(CC) -g -fsanitize=$(subst ;,$(comma),$(SANITIZER)) -Inative/include $$program.c -o build/$(NAME)/program \
			-Lbuild/$(NAME) -lrnnbridge -Wl,-rpath,$(CURDIR)/build/$(NAME) -lm && build/$(NAME)/program || exit 1; done

clean:
	rm -rf $(VENV) $(LINT_VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
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

$(LINT_VENV)/.cmake: $(LINT_VENV)/.lint
	$(LINT_VENV)/bin/python $(PIP_INSTALL) cmake ninja
	touch $@

$(LINT_VENV)/.lint: pyproject.toml
	$(PYTHON) -m venv $(LINT_VENV)
	$(LINT_VENV)/bin/python $(PIP_INSTALL) --config-settings wheel.cmake=false --editable '.[dev]'
	touch $@
