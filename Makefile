# What every target does: make help

GO       ?= go
FUZZTIME ?= 10s
BIN      ?= bin/swrproxy

# Packages with unit tests; integration has its own target because it starts processes.
UNITS = $(shell $(GO) list ./... | grep -v '/integration')

.DEFAULT_GOAL := help
.PHONY: help build test test-ahead race fuzz integration conformance fill-proof bench bench-peers lint check

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the static binary bin/swrproxy
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(BIN) ./cmd/swrproxy

test: ## unit tests of all packages
	$(GO) test -shuffle=on $(UNITS)

test-ahead: ## the same tests with the wall clock 400 days ahead
	$(GO) run ./integration/clock $(UNITS)

race: ## the same tests under the race detector
	$(GO) test -race -shuffle=on $(UNITS)

fuzz: ## every fuzz test for FUZZTIME (10s)
	@set -e; for pkg in $(UNITS); do \
		for name in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$name"; $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

integration: ## black-box tests: real processes, scripted origins
	$(GO) test -count=1 ./integration/...

conformance: ## the public HTTP cache test suite (needs node and npm), writes docs/conformance.md
	$(GO) run ./integration/conformance

fill-proof: ## show that the lease keepers grant a key to one holder at a time
	$(GO) run ./fill/internal/proof

bench: ## Go benchmarks, compared with integration/bench/base.txt
	$(GO) run ./integration/bench micro

bench-peers: ## the proxy against nginx and Varnish (needs Debian, root and two idle cores), writes docs/performance.md
	$(GO) run ./integration/bench
	$(GO) run ./integration/bench lookup

lint: ## gofumpt, vet, staticcheck
	@out=$$($(GO) tool gofumpt -l .); if [ -n "$$out" ]; then echo "not formatted with gofumpt:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

check: lint build test test-ahead race integration conformance ## everything that has to pass before a merge
