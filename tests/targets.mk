# targets.mk - what developers do with the tree: checks, other builds, fuzzing, figures. The Makefile includes it.

.PHONY: check lint format rooms compile_commands.json asan tsan valgrind arm cross analyze \
	fuzz fuzz-long fuzz-replay fuzz-merge fuzz-targets coverage bench peers instructions results \
	probe test-engine test-web test-schedulers test-bare mutants random-mutants faults inject

comma := ,

# ---- checks ----------------------------------------------------------------------

check: ## static checks, then tests and fuzzers under sanitizers
	$(MAKE) lint
	$(MAKE) asan
	$(MAKE) fuzz-replay
	$(MAKE) test-web
	$(MAKE) rooms ONLY="t_ cli/help cli/keys cli/roundtrip"

rooms: all units ## build and test the tree without each of seven tools (ONLY="TEXT ..." selects tests)
	ONLY='$(ONLY)' sh tests/rooms.sh

FORMATTED = $(wildcard include/organ/*.h src/*/*.[ch] src/*/*/*.[ch] \
	tools/*/*.[ch] tools/*/*/*.[ch] tests/*/*.[ch] tests/*/*/*.[ch])
format: ## format every .c and .h file with clang-format
	@clang-format -i $(FORMATTED)

lint: all
	sh scripts/check-symbols.sh $(LIB)
	sh scripts/check-links.sh $(B)
	sh scripts/check-size.sh
	sh scripts/check-bytes.sh $(B)
	sh scripts/count-api.sh
	sh scripts/check-options.sh
	sh scripts/check-portable.sh
	sh scripts/check-language.sh
	sh scripts/check-division.sh
	@bad=; for p in tests/mutants/*.patch; do git apply --check "$$p" || bad="$$bad $$p"; done; \
		[ -z "$$bad" ] || { echo "these faults no longer apply, see tests/mutants/README.md:$$bad"; exit 1; }
	@clang-format --dry-run -Werror $(FORMATTED)
	sh scripts/check-clangd.sh
	cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr --enable=warning,portability \
		--suppressions-list=tests/cppcheck.txt -Iinclude -Isrc -Itools -DGG_HAVE_L1 src tools
	shellcheck -S warning -s sh scripts/*.sh scripts/*/*.sh $(SCRIPTS) tests/*.sh \
		$(foreach d,cli fuzz mutants schedulers web,tests/$d/*.sh)
	shellcheck -S warning -s bash scripts/completion/organ .ci/run

# Every source once, for editors: kernels with the highest level that is compiled from them.
compile_commands.json: ## list how each source is compiled, for clangd
	@for f in $(SRC) $(MAIN) $(KERNEL) $(wildcard tools/probe/*.c tests/*/*.c tests/unit/*/*.c); do \
		case $$f in \
		*/kernel/*) flags='$(if $(L1),-mavx2 -mf16c -DGG_LEVEL=1,-DGG_LEVEL=0)' ;; \
		tests/unit/*) flags=-Itests/unit ;; \
		*) flags= ;; esac; \
		printf '{"directory": "%s", "file": "%s", "command": "$(CC) $(strip $(BASE) $(CPPFLAGS) $(CFLAGS)) %s -c %s"}\n' \
			'$(CURDIR)' $$f "$$flags" $$f; \
	done | sed '1s/^/[/; $$!s/$$/,/; $$s/$$/]/' > $@

# ---- other builds ----------------------------------------------------------------

SAN := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
asan:
	$(MAKE) B=build/asan CFLAGS="$(SAN)" LDFLAGS="-fsanitize=address,undefined" all units
	EXHAUSTIVE=1 SANITIZED=1 SECONDS_MAX=5 B=build/asan BIN=build/asan/bin sh tests/run.sh

tsan: ## run the tests under ThreadSanitizer, which finds races (ONLY="TEXT ..." selects)
	$(MAKE) B=build/tsan CFLAGS="-O1 -g -fsanitize=thread" LDFLAGS=-fsanitize=thread all units
	SANITIZED=1 SECONDS_MAX=60 B=build/tsan BIN=build/tsan/bin sh tests/run.sh

valgrind: all units ## run command-line tests with every tool under valgrind (about an hour on two processors)
	B=$(B) BIN=$(B)/bin sh tests/valgrind.sh

# NEON has to give the same results.
arm: ## run tests on an emulated aarch64 (needs gcc-aarch64-linux-gnu and qemu-user; ONLY="TEXT ..." selects)
	@ONLY="$(ONLY)" sh tests/arm.sh

cross: ## build for other systems with zig, which is installed from npm (TARGETS="aarch64-macos ...")
	sh tests/cross/build.sh $(TARGETS)

analyze: ## run the static analyzers of gcc and clang-tidy (minutes)
	sh tests/analyze.sh

# ---- fuzzing ---------------------------------------------------------------------

FUZZ := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
# A target is linked with replay.c, which mutates the seeds by itself, or, with FUZZ_ENGINE, with libFuzzer.
FUZZ_MAIN = $(if $(FUZZ_ENGINE),tests/fuzz/engine.c,tests/fuzz/replay.c) tests/fuzz/room.c tests/fuzz/mutate.c
$(B)/fuzz/%: tests/fuzz/%.c $(FUZZ_MAIN) $(wildcard tests/fuzz/*.h) $(ROOMS) $(LIB)
	$(call say,LINK)$(compile) $(HARDEN_LD) $(LEAN_LD) $(LDFLAGS) $(FUZZ_ENGINE) -o $@ $(filter %.c %.o,$^) $(ROOMS) $(LIB) -lm

FUZZ_FLAGS := -O2 -g1 -fno-omit-frame-pointer -fsanitize-coverage-ignorelist=$(CURDIR)/tests/fuzz/uncovered.txt
FUZZ_SAN := -fsanitize=address,undefined -fno-sanitize-recover=all
HAS_LIBFUZZER = echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return !d && n; }' | \
	clang -fsanitize=fuzzer -x c -o /dev/null - 2> /dev/null
TIME ?= 60
HOURS ?= 1
FUZZ_RUNS ?= 3000
# $(call libfuzzer,FOLDER,SANITIZERS,TRACED): the targets with libFuzzer. The table of options is that of other tools.
# Syncs and threads would take most of the time and are replaced (see engine.c).
libfuzzer = $(MAKE) B=$(1) CC=clang CFLAGS="$(FUZZ_FLAGS) $(2) -fsanitize-coverage=inline-8bit-counters,pc-table$(3)" \
	CPPFLAGS="-Dfsync=fuzz_fsync -Dpthread_create=fuzz_pthread_create" LDFLAGS="$(2)" FUZZ_ENGINE=-fsanitize=fuzzer \
	OPTIONS=$(CURDIR)/$(B)/options.tsv fuzz-targets
fuzz: $(B)/options.tsv ## fuzz each target for TIME seconds (60), with libFuzzer if clang has it
	@if $(HAS_LIBFUZZER); then \
		$(call libfuzzer,build/libfuzzer,$(FUZZ_SAN),$(comma)trace-cmp$(comma)indirect-calls) && \
		sh tests/fuzz/run.sh libfuzzer build/libfuzzer/fuzz $(TIME) $(FUZZ_TARGETS); \
	else $(MAKE) fuzz-replay; fi

# Comparisons are not traced, which makes it twice as fast. Without sanitizers it is three times as fast again.
fuzz-long: $(B)/options.tsv ## resume the campaign whose state is in docs/security.md for HOURS (needs clang with libFuzzer)
	@$(HAS_LIBFUZZER) || { echo "clang has no libFuzzer" >&2; exit 1; }
	@$(call libfuzzer,build/fuzz-long,$(FUZZ_SAN),)
	@$(call libfuzzer,build/fuzz-plain,,)
	sh tests/fuzz/run.sh long build/fuzz-long/fuzz:build/fuzz-plain/fuzz $(HOURS) $(FUZZ_TARGETS)

fuzz-replay: ## run the fuzz targets on FUZZ_RUNS mutants of their seeds, with any compiler
	$(MAKE) B=build/asan CFLAGS="$(SAN)" LDFLAGS="-fsanitize=address,undefined" fuzz-targets
	sh tests/fuzz/run.sh replay build/asan/fuzz $(FUZZ_RUNS) $(FUZZ_TARGETS)

# After a long `make fuzz`: keep the inputs that reach more code for the next.
fuzz-merge: ## renew the committed corpus in tests/fuzz/corpus from what make fuzz found
	sh tests/fuzz/run.sh merge build/libfuzzer/fuzz 8192 $(FUZZ_TARGETS)

fuzz-targets: $(or $(FUZZ_TARGETS:%=$(B)/fuzz/%),$(FUZZ))

# The file name is absolute because tests change the folder and clear the environment. Counters are in
# the file itself (%c), so that processes that a test kills count as well.
COV_FILE := -fprofile-instr-generate=$(CURDIR)/build/coverage/raw/%c%m.profraw
COV_FLAGS := $(COV_FILE) -fcoverage-mapping -mllvm -runtime-counter-relocation -Wno-unused-command-line-argument
coverage: ## print the lines and functions that tests and fuzz targets reach, per file
	rm -rf build/coverage/raw
	$(MAKE) B=build/coverage CC=clang CFLAGS="-O1 -g $(COV_FLAGS)" LDFLAGS="$(COV_FILE)" all units fuzz-targets
	B=build/coverage sh tests/fuzz/coverage.sh

# ---- figures ---------------------------------------------------------------------

BENCHES := $(patsubst tests/bench/%.c,$(B)/bench/%,$(sort $(wildcard tests/bench/bench_*.c)))
$(B)/bench/%: tests/bench/%.c $(ROOMS) $(LIB)
	$(call say,LINK)$(compile) $(HARDEN_LD) $(LEAN_LD) $(LDFLAGS) -o $@ $< $(ROOMS) $(LIB) -ldl -lm

bench: all $(BENCHES) $(B)/test/cost $(B)/test/mkmodel ## print goals and figures (SAVE=FILE, AGAINST=FILE|COMMIT; LARGE=1: of a 14B)
	BIN=$(B)/bin BENCH=$(B)/bench SAVE='$(SAVE)' AGAINST='$(AGAINST)' LARGE='$(LARGE)' sh tests/bench/run.sh

peers: all $(BENCHES) $(B)/test/cost ## compare whole programs with what a user would take instead
	BIN=$(B)/bin BENCH=$(B)/bench sh tests/bench/peers.sh

instructions: all $(B)/bench/bench_count $(B)/bench/bench_model ## count instructions per value under qemu, compare them with tests/bench/instructions.tsv (UPDATE=1)
	BIN=$(B)/bin BENCH=$(B)/bench UPDATE='$(UPDATE)' sh tests/bench/instructions.sh

results: all $(B)/bench/bench_model $(B)/test/cost $(B)/test/permute ## measure the figures of the pages again (LAB=DIR, PARTS=...)
	BIN=$(B)/bin BENCH=$(B)/bench COST=$(B)/test/cost PERMUTE=$(B)/test/permute sh tests/engine/results.sh

# ---- organ-probe -----------------------------------------------------------------

# organ-probe needs llama.cpp: its pkg-config file, or LLAMA=DIR with include/ and lib/ of an installation.
LLAMA_CFLAGS = $(if $(LLAMA),-I$(LLAMA)/include,$(shell pkg-config --cflags llama))
LLAMA_LIBS = $(if $(LLAMA),-L$(LLAMA)/lib -Wl$(comma)-rpath$(comma)$(LLAMA)/lib -lllama -lggml -lggml-base, \
	$(shell pkg-config --libs llama))
PROBE := $(wildcard tools/probe/*.c)
probe: $(B)/bin/organ-probe ## build organ-probe, which runs models (needs llama.cpp: pkg-config llama, or LLAMA=DIR)
$(B)/bin/organ-probe: $(PROBE) tools/probe/probe.h $(ROOMS) $(LIB)
	$(call say,LINK)$(CC) $(filter-out -Wpedantic,$(BASE)) $(HARDEN) $(CPPFLAGS) $(CFLAGS) $(LLAMA_CFLAGS) \
		$(HARDEN_LD) $(LDFLAGS) -o $@ $(PROBE) $(ROOMS) $(LIB) $(LLAMA_LIBS) -ldl -lm
	@rm -f $(B)/options.asked # asked again with its options

# ---- tests with other programs ---------------------------------------------------

test-engine: all ## load written models in a real engine (needs node and npm)
	BIN=$(B)/bin sh tests/engine/run.sh

test-web: all units ## use the page of organ-serve in a browser (needs chromium, node and lighttpd)
	B=$(B) BIN=$(B)/bin sh tests/web/run.sh

test-schedulers: all units ## run organ-fleet with a real Slurm (as root), sshd and rclone on 127.0.0.1 (Debian: three minutes)
	B=$(B) BIN=$(B)/bin sh tests/schedulers/run.sh

test-bare: ## run the README's commands in minimal roots of Debian 12 and 13 (needs root, mmdebstrap and git)
	sh tests/bare.sh

# ---- tests of the tests ----------------------------------------------------------

mutants: all units ## check that tests notice deliberate faults (half an hour)
	sh tests/mutants/run.sh

random-mutants: ## make N random changes of one token and count those that tests notice (an hour)
	sh tests/mutants/random.sh

faults: all $(B)/faults/inject.so ## fail each allocation, call and signal of each command once (glibc; minutes)
	B=$(B) BIN=$(B)/bin sh tests/faults/run.sh

inject: $(B)/faults/inject.so
$(B)/faults/inject.so: tests/faults/inject.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O1 -Wall -Wextra -shared -fPIC -o $@ $< -ldl
