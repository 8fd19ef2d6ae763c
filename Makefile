# `make leaderboard` and `make test` set everything up on their first call. Without a GPU, a CPU-only
# torch is wanted, which PyPI's is not: export PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP_OPTIONS ?=

.PHONY: leaderboard test lint clean

# What failed stands in the table, too; the status is pytest's.
leaderboard: $(VENV)/ready
	@echo '$(BIN)/pytest submissions/'; $(BIN)/pytest submissions/; status=$$?; \
	  $(BIN)/harness leaderboard --update LEADERBOARD.md && exit $$status

# Two processes, a file in one of them: the tests of a file share what they check.
test: $(VENV)/ready lint
	$(BIN)/pytest -n 2 --dist loadfile

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' || \
	  { echo "Python 3.11 or 3.12 is needed; say which: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	  { echo "Python's venv is missing; run: apt-get install python3-venv"; exit 1; }
	@$(PYTHON) -c 'import pathlib, sys, sysconfig; \
	  sys.exit(not pathlib.Path(sysconfig.get_path("include", "posix_prefix"), "Python.h").exists())' || \
	  { echo "Python's headers are missing; run: apt-get install python3-dev"; exit 1; }
	@command -v g++ >/dev/null || { echo "g++ is missing; run: apt-get install g++"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install $(PIP_OPTIONS) --quiet --editable '.[simulator,dev]'
	touch $@

clean:
	rm -rf $(VENV) .harness .pytest_cache .mypy_cache .ruff_cache
