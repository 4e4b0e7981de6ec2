# CairnDB's commands. `make` lists them. `make demo` and `make test` do their own set-up on a machine
# that has nothing but make and a shell; .ci/setup.sh says what it installs, and builds RocksDB once.

.DEFAULT_GOAL := help
.PHONY: help setup env demo test bench ratios ratios-large tuning fuzz indexes crash damage power histories handovers memory valgrind coverage mutants soak tool features counters campaign interleavings in-memory collections compare compare-build compare-sequences rocksdb-check package release release-check weekly house lint format clippy docs docs-without-rocksdb deny locks

# Parameters, as in `make crash KILLS=50000` and `make fuzz SECONDS_EACH=600 TARGETS=operations`.
KILLS ?= 2000
QUERIES ?= 100000
SECONDS_EACH ?= 60
SECONDS ?= 60
MINUTES ?= 120
CONNECTIONS ?= 100
COLLECTIONS ?= 10000
TARGETS ?=
CUTS ?= 6000
FAULTS ?= 2500
DEATHS_EACH ?= 1
DAMAGE ?=
HISTORIES ?= 1000
RUNS ?= 10
SEED ?=
SCHEDULES ?=
# What `make coverage` measures, as in `make coverage COVERED="-p cairndb-query" MINIMUM=90`.
COVERED ?= $(PACKAGES)
MINIMUM ?= 0
# What `make mutants` changes, and which tests must notice, as in
# `make mutants FILES=engine/src/write/** SHARD=0/40 NOTICING="-p cairndb -p cairndb-tests" TESTS="--lib --test model"`.
FILES ?= sequence/src/** index/src/key/**
SHARD ?=
NOTICING ?=
TESTS ?= --tests

SETUP := . .ci/setup.sh
# By name, because Cargo unifies features over a virtual workspace's default members.
PACKAGES := -p cairndb-index -p cairndb-sequence -p cairndb-pcre -p cairndb-query -p cairndb-rocksfile -p cairndb-formats \
    -p cairndb-base -p cairndb-store -p cairndb \
    -p cairndb-server -p cairndb-cli -p cairndb-counters -p cairndb-rocksdb -p cairndb-tests -p cairndb-clients
# Single suites are chosen out of all packages too: a package alone has fewer features of what it depends on, and all of that
# would be compiled again.
SUITES := cargo test --locked $(PACKAGES)
export SUITES

help: ## List the targets.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 26

setup: ## Install what is missing and build RocksDB, once; every other target does this itself.
	@$(SETUP) && echo "setup: ready, with RocksDB in $$ROCKSDB_LIB_DIR" >&2

env: ## Print what cargo by hand needs for the same RocksDB and clients: eval "$(make -s env)".
	@$(SETUP) && echo "export ROCKSDB_LIB_DIR='$$ROCKSDB_LIB_DIR' ROCKSDB_STATIC=1$${LIBCLANG_PATH:+ LIBCLANG_PATH='$$LIBCLANG_PATH'} CAIRNDB_PYTHON='$$CAIRNDB_PYTHON' CAIRNDB_MONGOSH='$$CAIRNDB_MONGOSH' CAIRNDB_RESTORE='$$CAIRNDB_RESTORE' CAIRNDB_SPECIFICATIONS='$$CAIRNDB_SPECIFICATIONS'"

demo: ## Show what the engine is, on one screen, with real documents (pipe NDJSON in for your own).
	@$(SETUP) && cargo run --locked -q -p cairndb-tests --bin demo

# MongoDB's own clients are needed by the suite `clients` only, so no other target installs them.
test: ## Run every test of the main workspace, the programs side by side.
	@$(SETUP) && clients && bash .ci/tests.sh $(SUITES)

bench: ## Run the criterion suites.
	@$(SETUP) && cargo bench --locked -p cairndb-benches

# The tool is run as a program of its own, one figure beside mongosh.
ratios: ## Print `name ratio` lines: CairnDB against raw RocksDB and others (ten minutes).
	@$(SETUP) && clients && cargo build --release --locked -q -p cairndb-cli && \
	    cargo run --release --locked -q -p cairndb-benches --bin ratios -- $(FIGURES)

ratios-large: ## Print how insertion slows down from 100 thousand to 10 million documents.
	@$(SETUP) && cargo run --release --locked -q -p cairndb-benches --bin ratios -- large

tuning: ## Print what RocksDB's options cost and give, without CairnDB (seven minutes; `PARTS="writes tables loads"`).
	@$(SETUP) && cargo run --release --locked -q -p cairndb-benches --bin tuning -- $(PARTS)

# Targets with required features link the engine. RocksDB's C++ is not instrumented, so no sanitizer watches them. All of them are built with
# the same features, so that the engine is compiled once, and in as many parts as a release build, which two cores share.
fuzz: ## Fuzz every target (or TARGETS) for SECONDS_EACH seconds.
	@$(SETUP) && tool cargo-fuzz 0.13.2 && for target in $(or $(TARGETS),`cargo fuzz list`); do \
	    if awk -v name="name = \"$$target\"" '$$0 == name { here = 1 } here && /^required-features/ { found = 1 } /^$$/ { here = 0 } \
	        END { exit !found }' fuzz/Cargo.toml; then \
	        sanitizer=none; bootstrap=; features="--features engine,server"; \
	    else sanitizer=address; bootstrap=RUSTC_BOOTSTRAP=1; features=; fi; \
	    corpus="$$CAIRNDB_CACHE/fuzz-corpus/$$target"; mkdir -p "$$corpus"; \
	    echo "fuzz: $$target for $(SECONDS_EACH) s, sanitizer $$sanitizer"; \
	    env $$bootstrap cargo fuzz run --sanitizer $$sanitizer $$features --codegen-units 16 \
	        --target-dir "$$CAIRNDB_CACHE/fuzz-target/$$sanitizer" $$target "$$corpus" -- \
	        -max_total_time=$(SECONDS_EACH) -max_len=4096 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 || exit 1; \
	done

indexes: ## Ask QUERIES random questions of stores with indexes and without.
	@$(SETUP) && CAIRNDB_INDEX_RUNS=$$(( $(QUERIES) / 200 + 1 )) $(SUITES) --test oracle -- indexes:: --nocapture

crash: ## Kill a writing process KILLS times, and audit what it leaves behind; damage files in DAMAGE ways.
	@$(SETUP) && CAIRNDB_KILLS=$(KILLS) $(if $(DAMAGE),CAIRNDB_DAMAGE=$(DAMAGE)) \
	    $(SUITES) --test faults -- crash:: --nocapture

damage: ## Damage every byte, or DAMAGE bytes, of the files that say what a database consists of (minutes).
	@$(SETUP) && CAIRNDB_DAMAGE=$(or $(DAMAGE),all) $(SUITES) --test faults -- crash::damage:: --nocapture

histories: ## Judge HISTORIES histories of several threads (SEED replays their choices).
	@$(SETUP) && CAIRNDB_HISTORIES=$(HISTORIES) $(if $(SEED),CAIRNDB_SEED=$(SEED)) \
	    $(SUITES) --test oracle -- histories:: --nocapture

handovers: ## Hand a collection over to a change stream beside writers, RUNS times: the copy equals the original (SEED replays).
	@$(SETUP) && CAIRNDB_HANDOVERS=$(RUNS) $(if $(SEED),CAIRNDB_SEED=$(SEED)) \
	    $(SUITES) --test api -- a_copy_that_is_handed_over --nocapture

memory: ## Send requests that ask for too much to a process that has no more, and count what refused ones cost.
	@$(SETUP) && $(SUITES) --test memory -- --nocapture

# It needs Linux, root and /dev/fuse; elsewhere it says `skipped: no fuse`. A seed of an earlier run replays its decisions.
power: ## Cut the power CUTS times, fail FAULTS operations, kill at each DEATHS_EACH-th, fill disks (SEED replays).
	@$(SETUP) && CAIRNDB_CUTS=$(CUTS) CAIRNDB_FAULTS=$(FAULTS) CAIRNDB_DEATHS_EACH=$(DEATHS_EACH) \
	    $(if $(SEED),CAIRNDB_SEED=$(SEED)) $(SUITES) --test faults -- power:: --nocapture

# Cargo starts the suite by valgrind, as it would start it in an emulator of another machine.
valgrind: ## Run RUNS histories of the model under valgrind, which watches every access to memory (minutes).
	@$(SETUP) && { has valgrind || install valgrind valgrind; } && \
	    host=$$(rustc -vV | sed -n 's/^host: //p' | tr a-z- A-Z_) && \
	    export "CARGO_TARGET_$${host}_RUNNER=valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite --show-leak-kinds=definite" && \
	    CAIRNDB_MODEL_RUNS=$(RUNS) $(SUITES) --test oracle -- model:: --nocapture

# LLVM 19 reads what newer compilers write; older ones, which come along with libclang, do not. It is asked for by that
# number where the system has several.
coverage: ## Tell how many lines and branches the tests run, by folder (COVERED packages, MINIMUM percent; half an hour).
	@$(SETUP) && { has llvm-cov-19 && has llvm-profdata-19 || has_llvm 19 || install llvm-19 llvm; } && \
	    $(if $(findstring cairndb-clients,$(COVERED)),clients &&) bash .ci/coverage.sh $(MINIMUM) $(COVERED)

# Each change is built and tested on its own, in a copy of the checkout, so a crate takes an hour or more. A property that
# fails is enough: making its example small could take longer than a test may. With NOTICING there is no run of the code as it
# is before, because cargo-mutants makes that with the tests of the changed package alone: see that they pass.
mutants: ## Change FILES in small ways, one at a time, and name the changes that no test notices (SHARD=0/40 for a part).
	@$(SETUP) && tool cargo-mutants 27.1.0 && unset CARGO_TARGET_DIR && mkdir -p "$$CAIRNDB_CACHE/mutants" && \
	    CARGO_PROFILE_DEV_DEBUG=0 PROPTEST_MAX_SHRINK_ITERS=0 cargo mutants --output "$$CAIRNDB_CACHE/mutants" $(foreach files,$(FILES),--file '$(files)') \
	        $(if $(SHARD),--shard $(SHARD) --sharding round-robin) \
	        $(if $(NOTICING),--baseline=skip --timeout 420) \
	        $(foreach package,$(filter-out -p,$(NOTICING)),--test-package $(package)) -- $(TESTS)

# The tool's own suite comes along, because it is what has cargo build the tool: no test of it has the name.
soak: ## Run mixed commands on CONNECTIONS connections that die at random, for SECONDS seconds.
	@$(SETUP) && CAIRNDB_SOAK_SECONDS=$(SECONDS) CAIRNDB_SOAK_CONNECTIONS=$(CONNECTIONS) \
	    $(SUITES) --test suite --test clients -- soak:: --nocapture

# KILLS counts where it is given: as many imports, and half as many restores and migrations. Inputs of every format are cut as
# often as DAMAGE says, and as often have a wrong byte; without it half as often as KILLS, or ten times.
TOOL_KILLS := $(if $(filter file,$(origin KILLS)),,$(KILLS))

tool: ## Run the tool beside a writer for SECONDS seconds, with MIB mebibytes, inputs damaged in DAMAGE ways, and KILLS kills.
	@$(SETUP) && export CAIRNDB_BESIDE_SECONDS=$(SECONDS) $(if $(MIB),CAIRNDB_TOOL_MIB=$(MIB)) \
	    $(if $(TOOL_KILLS),CAIRNDB_TOOL_KILLS=$(TOOL_KILLS)) \
	    $(if $(DAMAGE),CAIRNDB_DAMAGES=$(DAMAGE),$(if $(TOOL_KILLS),,CAIRNDB_DAMAGES=10)) && \
	    $(SUITES) --test suite -- --nocapture readers_beside_a_writer memory_does_not_grow cut_and_damaged \
	        $(if $(TOOL_KILLS),killed disturbed power_cut)

# Each feature of the tool can be left out, and so can both.
features: ## Check that the tool builds without `remote`, without `shell`, and without both.
	@$(SETUP) && for features in "" remote shell; do \
	    echo "features: the tool with '$$features'"; \
	    cargo check --locked -q -p cairndb-cli --bins --no-default-features --features "$$features" || exit 1; \
	done

# One application in two programs, for a store of CairnDB and for a cluster, and a migration between the two.
counters: ## Run the example of cairndb-counters in a folder, move it, and run it in what stands for a cluster.
	@$(SETUP) && sh .ci/counters.sh

campaign: ## Run the suites that choose at random in turns, with ever new seeds, for MINUTES, and add up what they tell.
	@$(SETUP) && bash .ci/campaign.sh $(MINUTES)

# The checker's locks and atomics take the place of the real ones by the features `shuttle`, which no other target enables. Only
# our own crates are compiled again for them.
interleavings: ## Run the threads of sequences and of a whole database in SCHEDULES orders a scenario (SEED replays them), and more.
	@$(SETUP) && $(if $(SCHEDULES),export CAIRNDB_SCHEDULES=$(SCHEDULES) &&) $(if $(SEED),export CAIRNDB_SEED=$(SEED) &&) \
	    cargo test --locked -p cairndb-sequence --features shuttle --lib interleavings && \
	    cargo test --locked -p cairndb-sequence --features shuttle --test interleavings -- --nocapture && \
	    cargo test --locked -p cairndb --features shuttle --test interleavings -- --nocapture

# Databases that the suites would make in a folder are made in memory. What opens a folder again is left out.
collections: ## Make COLLECTIONS collections with an index each, open them again, and print what that takes.
	@$(SETUP) && CAIRNDB_COLLECTIONS=$(COLLECTIONS) $(SUITES) --test suite -- collections:: --nocapture

in-memory: ## Run the suites on databases in memory.
	@$(SETUP) && export CAIRNDB_IN_MEMORY=1 && \
	    $(SUITES) --test oracle -- model:: conformance:: && \
	    $(SUITES) --test api -- --exact \
	        $$(sed '/^#/d; s/^/--skip /' tests/api/needs_folder.txt)

# PoloDB brings a RocksDB of its own, so it must not see the archive that CairnDB links. Its target folder is its own,
# so that the builds of the others, which do see it, share nothing with that half hour of C++. Its build script takes the
# processor's checksums, which ours has, from the compiler's flags.
compare: compare-build ## Run the same work through CairnDB and its rivals, and renew docs/compare.*.
	@$(SETUP) && cd benches/compare && target="$$CAIRNDB_CACHE/compare-target" && \
	    (unset ROCKSDB_LIB_DIR ROCKSDB_STATIC; \
	        if [ "$$(uname -m)" = x86_64 ]; then export RUSTFLAGS='-C target-feature=+sse4.2,+pclmulqdq'; fi; \
	        cargo build --release --locked --manifest-path polodb/Cargo.toml --target-dir "$$target-polodb") && \
	    cp "$$target-polodb/release/compare-polodb" "$$target/release/" && \
	    "$$target/release/compare" --out ../../docs

# All runners of the comparison but PoloDB's, whose own RocksDB takes half an hour: CI builds these, and runs what they have of tests.
compare-build:
	@$(SETUP) && cd benches/compare && target="$$CAIRNDB_CACHE/compare-target" && \
	    cargo build --release --locked --workspace --target-dir "$$target" && \
	    cargo test --release --locked -q -p workload -p compare-driver --target-dir "$$target"

# PARTS chooses: `make package PARTS="pack graphs"`. .ci/package.sh says what they are.
package: ## Pack what is published, and build, run, document and test it outside of the checkout (an hour).
	@$(SETUP) && bash .ci/package.sh $(PARTS)

release: ## Make cairn-VERSION-TARGET.tar.gz: the stripped tool, man pages, completions, licenses, checksums.
	@$(SETUP) && bash .ci/release.sh

release-check: ## Make that archive twice from nothing, in two folders: the same bytes, which run (20 minutes).
	@$(SETUP) && bash .ci/release-check.sh

# Meant to be run once a week, and after every change of rocksdb/: nearly an hour on two cores.
rocksdb-check: ## Build RocksDB the crate's own way, compare the symbols with ours, and run every test on it.
	@$(SETUP) && clients && sh .ci/rocksdb-check.sh "$$ROCKSDB_LIB_DIR/librocksdb.a" $(PACKAGES)

# Run before a release. CI's numbers of kills, cuts and cases are those of `make test`; these are higher.
weekly: ## Run what takes longer than a change can wait: all fuzz targets, valgrind, coverage, high numbers of faults (hours).
	@$(SETUP) && clients && bash .ci/weekly.sh

compare-sequences: ## Hand out numbers in CairnDB, PostgreSQL (if installed) and SQLite (some minutes).
	@$(SETUP) && cd benches/compare && target="$$CAIRNDB_CACHE/compare-target" && \
	    cargo build --release --locked -p compare-driver -p compare-cairndb -p compare-postgres -p compare-sqlite \
	        --target-dir "$$target" && \
	    "$$target/release/compare" sequences --out ../../docs

house: ## Print how the sources are kept: circles, tuples as parameters, phrases, examples, assertions, unsafe.
	@$(SETUP) && CAIRNDB_HOUSE=1 $(SUITES) -q --test tidy the_house -- --nocapture

lint: format clippy docs deny locks ## Check formatting, Clippy, documentation, licenses and all lock files.

format:
	@$(SETUP) && cargo fmt --check

clippy:
	@$(SETUP) && cargo clippy --locked --workspace --all-targets -- -D warnings

docs:
	@$(SETUP) && RUSTDOCFLAGS=-Dwarnings cargo doc --locked --no-deps $(PACKAGES)

# As on docs.rs, where RocksDB's library is not there. The folder of its own keeps the other builds from being made again for
# another place of the library.
docs-without-rocksdb:
	@$(SETUP) && empty="$$CAIRNDB_CACHE/no-rocksdb" && mkdir -p "$$empty" && \
	    ROCKSDB_LIB_DIR="$$empty" CARGO_TARGET_DIR="$$CAIRNDB_CACHE/docs-target" RUSTDOCFLAGS=-Dwarnings \
	    cargo doc --locked --no-deps $(PACKAGES)

deny:
	@$(SETUP) && tool cargo-deny 0.20.2 && cargo fetch --locked -q && \
	    cargo deny --offline check licenses bans sources

# Each workspace has a lock file of its own, and a change of the engine's dependencies makes the others stale.
locks:
	@for folder in . fuzz benches/compare benches/compare/polodb; do \
	    cargo metadata --locked --format-version 1 --manifest-path $$folder/Cargo.toml >/dev/null || { \
	        echo "locks: $$folder/Cargo.lock is not current: renew it with" \
	            "'cargo metadata --format-version 1 --manifest-path $$folder/Cargo.toml >/dev/null'" >&2; exit 1; }; \
	done
