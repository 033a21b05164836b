# Everything a newcomer needs is two commands: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Many tests wait more than they work.
JOBS := $(shell $(PYTHON) -c "import os; print((os.cpu_count() or 1) * 3 // 2 or 1)")
CLAUDE_VERSION := 2.1.197
SYSTEM := bubblewrap chromium iproute2 redis-server
CLAUDE := .tools/claude
CODEX_VERSION := 0.169.0
GEMINI_VERSION := 0.61.0
OPENCODE_VERSION := 1.18.33

# The tests start hundreds of Python processes: each would compile all of the farm anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-long lint system claude agents docs bench bench-scale chaos lock clean

demo: $(VENV)/.demo-ready  ## install, and run the quickstart: no API key, no broker
	$(BIN)/farm submit examples/quickstart/tests/

test: lint system claude  ## everything CI runs
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-long: $(VENV)/.dev-ready system claude  ## the same once more in other settings: pools, places, pages
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m long

lint: $(VENV)/.dev-ready  ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What tests need beyond PyPI. Where it can't be installed, they skip and say why; with CI set, they fail.
system:
	@command -v bwrap >/dev/null && command -v ip >/dev/null && command -v chromium >/dev/null && command -v redis-server >/dev/null || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		{ apt-get install -qq -y $(SYSTEM) || { apt-get update -qq && apt-get install -qq -y $(SYSTEM); }; } >/dev/null; } \
		|| echo "not installed: one of $(SYSTEM); some tests will be skipped"

# The real Claude Code CLI, for tests against a scripted API; nothing outside this directory is touched.
claude: $(CLAUDE)/.ready-$(CLAUDE_VERSION)

$(CLAUDE)/.ready-$(CLAUDE_VERSION):
	@rm -f $(CLAUDE)/.ready-*  # another version is there no more
	@if command -v npm >/dev/null && npm install --silent --no-audit --no-fund --prefix $(CLAUDE) \
		@anthropic-ai/claude-code@$(CLAUDE_VERSION) && $(CLAUDE)/node_modules/.bin/claude --version >/dev/null; \
		then touch $@; else echo "not installed: Claude Code, which needs npm; its tests will be skipped"; fi

# The other agents' CLIs: 860 MB in all, and optional, so that `make test` runs their tests only where they are.
agents:  ## install Codex, Gemini and OpenCode into .tools, for their tests
	@for cli in codex=@openai/codex@$(CODEX_VERSION) gemini=@google/gemini-cli@$(GEMINI_VERSION) \
		opencode=opencode-ai@$(OPENCODE_VERSION); do name=$${cli%%=*}; \
		npm install --silent --no-audit --no-fund --prefix .tools/$$name "$${cli#*=}" \
		&& .tools/$$name/node_modules/.bin/$$name --version || exit 1; done

docs: $(VENV)/.dev-ready  ## make docs/reference from the code
	$(BIN)/python -m docs.generate

bench: $(VENV)/.dev-ready  ## measure; see bench/README.md
	$(BIN)/python -m bench.authoring
	$(BIN)/python -m bench.engine
	$(BIN)/python -m bench.sessions
	$(BIN)/python -m bench.scale 1000 10000

bench-scale: $(VENV)/.dev-ready  ## memory and time up to 50,000 cases; takes minutes
	$(BIN)/python -m bench.scale

chaos: $(VENV)/.dev-ready  ## 2,000 cases under fire: workers and the server are killed; SEED=… does it again
	$(BIN)/python -m tests.e2e.chaos --cases 2000 --kills 60 --restarts 2 --freezes 4 $(if $(SEED),--seed $(SEED))

lock: $(VENV)/.dev-ready  ## pin the newest versions that pyproject.toml allows
	$(BIN)/pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --upgrade --extra dev --strip-extras --no-header --no-annotate \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options \
		--output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) .tools .farm build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "the farm needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo-ready: $(VENV)/bin/python pyproject.toml requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check -c requirements.lock --config-settings editable_mode=compat -e .
	@touch $@

$(VENV)/.dev-ready: $(VENV)/bin/python pyproject.toml requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check -c requirements.lock --config-settings editable_mode=compat -e '.[dev]'
	@touch $@ $(VENV)/.demo-ready
