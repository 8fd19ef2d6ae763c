# `make leaderboard` and `make test` set everything up on their first call.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP_OPTIONS ?=
# Where a machine without an NVIDIA GPU looks for a CPU-only torch, which is gigabytes smaller than
# PyPI's, built for CUDA; empty: nowhere. Either will do.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

# Where the home folder cannot be written, what is built is kept here.
ifeq ($(XDG_CACHE_HOME),)
  ifneq ($(shell test -w ~/.cache || { test ! -e ~/.cache && test -w ~; } && echo can),can)
    export XDG_CACHE_HOME := $(CURDIR)/.harness/cache
  endif
endif

.PHONY: leaderboard screenshots test test-all lint clean

# What failed stands in the table, too; the status is pytest's.
leaderboard: $(VENV)/ready
	@echo '$(BIN)/pytest submissions/'; \
	  $(BIN)/pytest submissions/ --harness-html .harness/report.html; status=$$?; \
	  $(BIN)/harness leaderboard --update LEADERBOARD.md && exit $$status

# The pictures in docs/: of the page of the submissions, which `make leaderboard` writes, and of one
# that is wrong. Needs Chromium.
PAGE ?= .harness/report.html
SHOW := $(BIN)/python -m tests.report_page.browser
WRONG := tests/defects/no_divisibility_test.py
screenshots:
	$(SHOW) $(PAGE) '' docs/report_overview.png 1200 620
	$(SHOW) $(PAGE) '#shared_memory/conv_transpose1d/source' docs/report_source.png 1000 700 \
	  '#source .row button' '.target .number button'
	-$(BIN)/harness check $(WRONG) --reference reference/conv_transpose1d.py --seed 1 --html .harness/wrong.html
	$(SHOW) .harness/wrong.html '#no_divisibility_test/conv_transpose1d/wrong' docs/report_wrong.png 1200 500

# Two processes, a file in one of them: the tests of a file share what they check. The order is that
# of tests/conftest.py, the slowest first. What the tests took is in .harness/tests.xml.
RUN_TESTS = $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --junitxml=.harness/tests.xml

# What a contributor runs: all but the tests that are marked `thorough`.
test: $(VENV)/ready
	$(RUN_TESTS) -m 'not thorough'

test-all: $(VENV)/ready
	$(RUN_TESTS)

# Apart from the tests: what mypy says depends on the types that a release of torch or numpy has.
lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or later is needed; choose one: make PYTHON=python3.13"; exit 1; }
	@$(PYTHON) -I harness/preinstall.py $(VENV) $(PIP_OPTIONS)
	$(PYTHON) -m venv $(VENV)
	@index=; \
	if [ -n "$(TORCH_INDEX)" ] && ! command -v nvidia-smi >/dev/null; then \
	  timeout 10 $(BIN)/python -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1], timeout=5)' \
	    "$(TORCH_INDEX)/torch/" 2>/dev/null && index="--extra-index-url $(TORCH_INDEX)"; \
	fi; \
	set -x; $(BIN)/pip install $(PIP_OPTIONS) --quiet $$index --editable '.[simulator,dev]'
	touch $@

clean:
	rm -rf $(VENV) .harness .pytest_cache .mypy_cache .ruff_cache
