# Works from a fresh clone: needs Python 3.11+, make and a C++ compiler; everything else goes into .venv.
# Choose an interpreter or a compiler with `make PYTHON=... CXX=... TARGET`; pass options on with ARGS="...".

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.complete

# The machine's own Python settings must not leak into the environment, nor pip chatter into the terminal.
unexport PYTHONPATH PYTHONHOME
export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PIP_ROOT_USER_ACTION = ignore
export PIP_NO_INPUT = 1
export PIP_USER = 0

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help venv demo test test-slow test-isa lint bench sanitize clean FORCE

help: ## show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "make %-9s %s\n", $$1, $$2}' Makefile

demo: $(STAMP) ## train a translator of dates and try it (two minutes)
	@echo "==> training a translator of dates"
	@$(BIN)/carousel demo $(ARGS)

test: $(STAMP) ## run the tests; ARGS="-k lstm" picks some
	@echo "==> running the tests"
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" $(ARGS)

test-slow: $(STAMP) ## run the tests that take long: processes killed, exporters, compilers, every lab
	@echo "==> running the slow tests"
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m slow $(ARGS)

# The remaining tests call the kernels only through what these test.
test-isa: $(STAMP) ## repeat the tests of kernels, layers and learning under this processor's other instruction sets
	$(eval others := $(other-sets))
	@$(if $(others),,echo "==> this processor has no other instruction set")
	@for s in $(others); do \
	  echo "==> running the tests of kernels, layers and learning with CAROUSEL_ISA=$$s"; \
	  CAROUSEL_ISA=$$s $(BIN)/python -m pytest -n 2 --dist worksteal -m "(native or learning) and not slow" $(ARGS) || exit 1; \
	done

lint: $(STAMP) ## check style (ruff), types (mypy) and that the kernels compile for other processors
	@echo "==> checking style and types"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@for s in $(unsupported-sets); do echo "==> checking that the kernels compile for $$s, which this processor lacks"; \
	  PATH="$(CURDIR)/$(BIN):$$PATH" && cmake -G Ninja -S . -B build/check-$$s -DCAROUSEL_CHECK=ON -DCAROUSEL_PYTHON=OFF \
	    -DCAROUSEL_SETS=$$s >/dev/null && cmake --build build/check-$$s -j 2 >/dev/null || exit 1; done

bench: $(STAMP) ## measure the layers against torch.nn
	@echo "==> measuring the layers"
	@$(BIN)/carousel bench layers $(ARGS)

sanitize: $(STAMP) ## run the kernels under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer
	@echo "==> building the kernels with sanitizers (some minutes)"
	@$(call sanitizer,address,$(sets))
	@$(call sanitizer,thread,$(firstword $(sets)))
	@echo "==> running every cell and option"
	@for s in $(sets); do echo "address, undefined: $$s"; build/sanitize-address/sanitize_$$s || exit 1; done
	@echo "thread: $(firstword $(sets))"; TSAN_OPTIONS=halt_on_error=1 build/sanitize-thread/sanitize_$(firstword $(sets))

# $(call sanitizer,kind,instruction sets): build the driver
sanitizer = PATH="$(CURDIR)/$(BIN):$$PATH" && cmake -G Ninja -S . -B build/sanitize-$(1) -DCAROUSEL_SANITIZE=$(1) \
  -DCAROUSEL_PYTHON=OFF -DCAROUSEL_SETS="$(subst $(eval) ,;,$(2))" >/dev/null && cmake --build build/sanitize-$(1) -j 2 >/dev/null

# the instruction sets that this processor runs, best first
sets = $(shell $(BIN)/python -c 'from carousel.ops import backend; print(*backend.supported())')
unsupported-sets = $(shell $(BIN)/python -c 'from carousel.ops import backend; print(*(s for s in backend.SETS if s not in backend.supported()))')
# the instruction sets that this processor runs and `make test` does not use
other-sets = $(shell $(BIN)/python -c 'from carousel.ops import backend; print(*(s for s in backend.supported() if s != backend.isa()))')

clean: ## remove the environment and everything else make created
	@echo "==> removing $(VENV), build products, caches and the demo"
	@rm -rf $(VENV) build dist demo-dates bench-layers bench-output .pytest_cache .hypothesis .mypy_cache .ruff_cache
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# ---------------------------------------------------------------- the environment

# Candidates in order: what `python3` means here, then by name. Each must run (a version manager's shim may not),
# be new enough and be able to make an environment. A virtual environment answers with the Python it was made from.
PYTHONS = $(if $(PYTHON),"$(PYTHON)",python3 python3.11 python3.12 python3.13 python3.14)
python = $(shell for p in $(PYTHONS); do "$$p" -c 'import ensurepip, sys, venv; \
  print(sys._base_executable) if sys.version_info >= (3, 11) else sys.exit(1)' 2>/dev/null && break; done)
pythons-seen = $(shell for p in $(PYTHONS); do v=$$("$$p" --version 2>/dev/null) && echo "$$p ($$v)"; done; true)
no-python = Carousel needs Python 3.11 or newer with its venv module (Debian, Ubuntu: apt install python3-venv); \
  found $(or $(pythons-seen),none of: $(subst ",,$(PYTHONS))); set PYTHON=/path/to/python

# CXX counts only when somebody set it: make itself always defines one.
COMPILERS = $(if $(filter default undefined,$(origin CXX)),c++ g++ clang++,"$(CXX)")
compiler = $(shell for c in $(COMPILERS); do \
  $$c -std=c++17 -fsyntax-only -include vector -x c++ /dev/null >/dev/null 2>&1 && echo "$$c" && break; done)
no-compiler = Carousel needs a C++17 compiler; tried: $(subst ",,$(COMPILERS)); \
  install one (Debian, Ubuntu: apt install g++; macOS: xcode-select --install) or set CXX=/path/to/compiler

# The stamp is written last and names the directory it was made in, so an environment that is half made, that was
# copied along with the clone, or whose Python is gone is made again. Otherwise an install is redone in place.
remake = $(shell test -x $(BIN)/python && test "$$(cat $(STAMP) 2>/dev/null)" = "$(CURDIR)" || echo yes)
ifneq ($(remake),)
$(STAMP): FORCE
endif

venv: $(STAMP)

# The instruction sets to build: on Linux those that this processor runs, a third of the time less without AVX-512;
# elsewhere all. A wheel has all of them.
has = $(shell grep -q -m 1 -w $(1) /proc/cpuinfo 2>/dev/null && echo "$(2)")
built = $(if $(call has,sse2,yes),generic$(call has,avx2,;avx2)$(call has,avx512bw,;avx512))

# $(error) rather than a failing command: it is the one way for make to stop with a single line.
$(STAMP): pyproject.toml constraints.txt
	$(eval remake := $(remake))
	$(if $(remake),$(eval base := $(python))$(if $(base),,$(error $(no-python))))
	$(eval cxx := $(compiler))$(if $(cxx),,$(error $(no-compiler)))
	@rm -rf $(if $(remake),$(VENV),$@)
	$(if $(remake),@echo "==> creating $(VENV) with $$("$(base)" --version)" && "$(base)" -m venv $(VENV))
	@echo "==> installing Carousel and its tested dependencies$(if $(remake), (some minutes: torch is large))"
	@CXX="$(cxx)" CMAKE_ARGS="$(CMAKE_ARGS)$(if $(built), -DCAROUSEL_SETS='$(built)')" \
	  $(BIN)/python -m pip -qq install -c constraints.txt -e '.[dev]'
	@$(BIN)/python -m compileall -q src  # pip does that for all but editable installs
	@echo "$(CURDIR)" > $@
