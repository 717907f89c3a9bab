# organ suite - build, test, install. `make help` lists the targets.
#
# User variables: CC AR CFLAGS CPPFLAGS LDFLAGS; DESTDIR and PREFIX (or prefix), and the
# folders of the GNU standards below: make install prefix=/usr libdir=/usr/lib64

# awk, sort and others do the same in each language: in Turkish, the capital of i is not I.
export LC_ALL := C

.DEFAULT_GOAL := all
.PHONY: FORCE all clean help format lint units test test-bare test-engine test-schedulers test-web check rooms demo \
	asan tsan valgrind arm cross analyze coverage mutants random-mutants faults inject compile_commands.json probe \
	fuzz fuzz-long fuzz-replay fuzz-merge fuzz-targets bench peers instructions results \
	install uninstall dist dist-source dist-static deb

CC ?= cc
AR ?= ar
CFLAGS ?= -O2
PREFIX ?= /usr/local
prefix = $(PREFIX)
exec_prefix = $(prefix)
bindir = $(exec_prefix)/bin
libdir = $(exec_prefix)/lib
includedir = $(prefix)/include
datarootdir = $(prefix)/share
datadir = $(datarootdir)
mandir = $(datarootdir)/man
docdir = $(datarootdir)/doc/organ-suite
pkgdatadir = $(datadir)/organ-suite
pkgconfigdir = $(libdir)/pkgconfig
bashcompdir = $(datarootdir)/bash-completion/completions
zshcompdir = $(datarootdir)/zsh/site-functions
fishcompdir = $(datarootdir)/fish/vendor_completions.d

# The version is defined only in include/organ/gg_version.h.
version := $(shell awk '$$2 ~ /^GG_VERSION_(MAJOR|MINOR|PATCH)$$/ { v = v dot $$3; dot = "." } END { print v }' include/organ/gg_version.h)

# Relative if it lies here, because files of dependencies name objects as they were called.
B := build
override B := $(patsubst $(CURDIR)/%,%,$(B))
comma := ,
WARN := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef -Wstrict-prototypes \
	-Wmissing-prototypes -Wpointer-arith -Wcast-qual -Wwrite-strings -Wvla -Wno-psabi \
	-Wno-attribute-warning -Wno-missing-field-initializers

# What this compiler takes: HARDEN, HARDEN_LD, LEAN, LEAN_LD, SPARED, VECTOR and L1, which says whether kernels are
# compiled for AVX2 too. scripts/flags.sh explains them. `make HARDEN= HARDEN_LD=` turns hardening off; `make PACK=`
# leaves packed relocations out, for programs that will run on older systems than this one.
PACK := -Wl,-z,pack-relative-relocs
ifneq ($(filter-out clean help,$(or $(MAKECMDGOALS),all)),)
-include $(B)/flags.mk
endif
$(B)/flags.mk: FORCE
	@CC='$(CC)' CFLAGS='$(CFLAGS)' LDFLAGS='$(LDFLAGS)' PACK='$(PACK)' sh scripts/flags.sh $@

# No contraction and no fast-math, so that results are the same bits on every machine.
BASE = -std=c11 -D_DEFAULT_SOURCE -D_FILE_OFFSET_BITS=64 -Iinclude -Isrc -Itools -ffp-contract=off -fno-math-errno \
	-pthread $(WARN) $(if $(L1),-DGG_HAVE_L1)

# ---- sources ---------------------------------------------------------------------

# src/ becomes the library. Each folder of tools/ is the room of one tool or two: their main files, organ-NAME.c,
# and what only they need; tools/common has what all share. organ-probe is built by `make probe` only.
MAIN := $(sort $(filter-out tools/probe/%,$(wildcard tools/*/organ-*.c)))
SRC := $(sort $(filter-out $(MAIN) tools/probe/%,$(wildcard src/*/*.c tools/*/*.c)))
KERNEL := $(sort $(wildcard src/*/kernel/*.c tools/*/kernel/*.c))
TABLES := $(patsubst %/,%/tables.c,$(sort $(dir $(wildcard src/*/*.txt tools/*/*.txt))))
BINS := $(patsubst %.c,$(B)/bin/%,$(notdir $(MAIN)))

# Objects have the paths of their sources. Kernels are compiled once per instruction-set level: -O3
# would add half to their size and gain nothing, because the loops that must be unrolled are marked.
objects = $(1:%.c=$(B)/obj/%.o)
L0 := $(KERNEL:%.c=$(B)/obj/%_l0.o)
L1_OBJ := $(if $(L1),$(KERNEL:%.c=$(B)/obj/%_l1.o))
MAIN_OBJ := $(call objects,$(MAIN))
PARTS := $(call objects,$(SRC) $(TABLES)) $(L0) $(L1_OBJ)
OBJ := $(PARTS) $(MAIN_OBJ)
LIB := $(B)/lib/libgguf.a
ROOMS := $(B)/lib/rooms.a
API_OPTIONS := $(B)/obj/tools/api/options.o

all: $(LIB) $(BINS) $(patsubst %,$(B)/completion/%,organ _organ organ.fish) ## build the library and the tools (default)

# ---- compile ---------------------------------------------------------------------

# Code that decides what others compute is built for size. The rules of names are an exception: a
# model may have very many tensors, and -O2 makes them three times faster. json_format.c would need
# libm, verb_measure_read.c gathers samples, and vocab.c looks up a million tokens.
LOGIC = $(if $(filter -O2,$(CFLAGS)),-Os $(SPARED))
FAST := src/organ/anatomy% src/json/json_format.c src/vocab/vocab.c tools/measure/verb_measure_read.c \
	src/quant/% src/numeric/% $(filter-out $(patsubst %,src/base/%.c,io output escape status nearest),$(wildcard src/base/*.c))
$(call objects,$(filter-out $(FAST),$(SRC) $(MAIN)) $(TABLES)) $(API_OPTIONS): FLAGS = $(LOGIC)
# Where there is a level 1, few machines use level 0, which is built for size.
$(L0): FLAGS = $(if $(L1),$(LOGIC),$(VECTOR)) -DGG_LEVEL=0
$(L1_OBJ): FLAGS = $(VECTOR) -mavx2 -mf16c -DGG_LEVEL=1

# make V=1 prints full commands. Otherwise each is one short line.
say = $(if $(filter 1,$(V)),,@$(info $()  $(1)	$@))
compile = $(CC) $(BASE) $(HARDEN) $(LEAN) $(CPPFLAGS) $(CFLAGS) $(FLAGS)
compile_rule = $(call say,CC)$(compile) -MMD -MP -c -o $@ $<
$(call objects,$(SRC) $(MAIN)): $(B)/obj/%.o: %.c
	$(compile_rule)
$(L0): $(B)/obj/%_l0.o: %.c
	$(compile_rule)
$(L1_OBJ): $(B)/obj/%_l1.o: %.c
	$(compile_rule)
$(call objects,$(TABLES)) $(API_OPTIONS): %.o: %.c
	$(compile_rule)

# Tables that are text become a C source.
$(B)/obj/src/arch/tables.c: src/arch/tables.awk $(wildcard src/arch/*.txt)
$(B)/obj/src/check/tables.c: src/check/tables.awk $(wildcard src/check/*.txt)
$(B)/obj/src/compute/tables.c: scripts/tables.awk $(wildcard src/compute/*.txt)
$(B)/obj/src/hf/tables.c: src/hf/tables.awk $(wildcard src/hf/*.txt)
$(B)/obj/src/kin/tables.c: scripts/tables.awk $(wildcard src/kin/*.txt)
$(B)/obj/src/organ/tables.c: src/organ/tables.awk $(wildcard src/organ/*.txt)
$(B)/obj/src/quant/tables.c: scripts/tables.awk $(wildcard src/quant/*.txt)
$(B)/obj/tools/merge/tables.c: tools/merge/tables.awk $(wildcard tools/merge/*.txt)
$(TABLES:%=$(B)/obj/%):
	$(call say,GEN)awk -f $^ > $@.tmp && mv $@.tmp $@

# ---- link ------------------------------------------------------------------------

# The list of objects, and all folders. The archives depend on it, so that they are made again if a source was removed.
$(B)/obj/list: FORCE
	@mkdir -p $(sort $(dir $(OBJ))) $(addprefix $(B)/,bin lib completion test fuzz bench)
	@echo '$(OBJ:$(B)/%=%)' | cmp -s - $@ || echo '$(OBJ:$(B)/%=%)' > $@
$(OBJ) $(TABLES:%=$(B)/obj/%) $(B)/options.asked: | $(B)/obj/list
$(LIB): $(filter $(B)/obj/src/%,$(PARTS)) $(B)/obj/list
$(ROOMS): $(filter $(B)/obj/tools/%,$(PARTS)) $(B)/obj/list
$(LIB) $(ROOMS):
	@rm -f $@
	$(call say,AR)$(AR) rcs $@ $(filter %.o,$^)

# A tool is its main file, and what that calls from the rooms and from the library.
$(BINS): $(ROOMS) $(LIB)
	$(call say,LINK)$(CC) $(CFLAGS) -pthread $(HARDEN_LD) $(LEAN_LD) $(LDFLAGS) -o $@ $(filter %.o,$^) $(ROOMS) $(LIB) -lm
$(foreach o,$(MAIN_OBJ),$(eval $(B)/bin/$(basename $(notdir $o)): $o))
$(B)/bin/organ-api $(B)/fuzz/fuzz_api: $(API_OPTIONS)

# organ-probe needs llama.cpp: its pkg-config file, or LLAMA=DIR with include/ and lib/ of an installation.
LLAMA_CFLAGS = $(if $(LLAMA),-I$(LLAMA)/include,$(shell pkg-config --cflags llama))
LLAMA_LIBS = $(if $(LLAMA),-L$(LLAMA)/lib -Wl$(comma)-rpath$(comma)$(LLAMA)/lib -lllama -lggml -lggml-base,$(shell pkg-config --libs llama))
PROBE := $(wildcard tools/probe/*.c)
probe: $(B)/bin/organ-probe ## build organ-probe, which runs models (needs llama.cpp: pkg-config llama, or LLAMA=DIR)
$(B)/bin/organ-probe: $(PROBE) tools/probe/probe.h $(ROOMS) $(LIB)
	$(call say,LINK)$(CC) $(filter-out -Wpedantic,$(BASE)) $(HARDEN) $(CPPFLAGS) $(CFLAGS) $(LLAMA_CFLAGS) $(HARDEN_LD) $(LDFLAGS) -o $@ \
		$(PROBE) $(ROOMS) $(LIB) $(LLAMA_LIBS) -ldl -lm
	@rm -f $(B)/options.asked # asked again with its options

# The options of all tools and scripts. The tools print theirs, again after a change of what has options and lists;
# completion and organ-api are made again only if its text has changed.
# Tools built for another machine run with RUN, an emulator, or the table is that of other tools: OPTIONS=FILE.
$(B)/options.asked: $(or $(OPTIONS),$(MAIN) $(wildcard scripts/options* src/*/*.txt tools/*/*.txt tools/common/*.c tools/*/*options.c)) \
		$(if $(OPTIONS),,| $(filter-out %/organ-api,$(BINS)))
	$(call say,GEN)$(if $(OPTIONS),cat $(OPTIONS),RUN='$(RUN)' sh scripts/options.sh $(B)/bin) > $@.tmp && \
		{ cmp -s $@.tmp $(B)/options.tsv || cp $@.tmp $(B)/options.tsv; } && mv $@.tmp $@
$(B)/options.tsv: $(B)/options.asked
	@test -f $@ || cp $< $@
$(B)/obj/tools/api/options.c: $(B)/options.tsv tools/api/options.awk
	$(call say,GEN)awk -f tools/api/options.awk $< > $@.tmp && mv $@.tmp $@

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

# ---- tests ---------------------------------------------------------------------

# Unit tests are in the folders of the rooms that they test. The last seven programs are used by tests/cli.
UNITS := $(addprefix $(B)/test/,$(notdir $(basename $(sort $(wildcard tests/unit/t_*.c tests/unit/*/t_*.c)))) \
	mkmodel unpack cost permute zerodim onpty mutant)
FUZZ := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
BENCHES := $(patsubst tests/bench/%.c,$(B)/bench/%,$(sort $(wildcard tests/bench/bench_*.c)))

vpath %.c tests/unit $(wildcard tests/unit/*/)
$(B)/test/%: %.c $(wildcard tests/unit/*.h) $(ROOMS) $(LIB)
	$(call say,LINK)$(compile) -Itests/unit $(LOGIC) $(HARDEN_LD) $(LEAN_LD) $(LDFLAGS) -o $@ $< $(ROOMS) $(LIB) -lm

# A target is linked with replay.c, which mutates the seeds by itself, or, with FUZZ_ENGINE, with libFuzzer.
FUZZ_MAIN = $(if $(FUZZ_ENGINE),tests/fuzz/engine.c,tests/fuzz/replay.c) tests/fuzz/room.c tests/fuzz/mutate.c
$(B)/fuzz/%: tests/fuzz/%.c $(FUZZ_MAIN) $(wildcard tests/fuzz/*.h) $(ROOMS) $(LIB)
	$(call say,LINK)$(compile) $(HARDEN_LD) $(LEAN_LD) $(LDFLAGS) $(FUZZ_ENGINE) -o $@ $(filter %.c %.o,$^) $(ROOMS) $(LIB) -lm

$(B)/bench/%: tests/bench/%.c $(ROOMS) $(LIB)
	$(call say,LINK)$(compile) $(HARDEN_LD) $(LEAN_LD) $(LDFLAGS) -o $@ $< $(ROOMS) $(LIB) -ldl -lm

demo: all ## take a bundled model apart, assemble it, graft, verify
	BIN=$(B)/bin sh scripts/demo.sh

units: $(UNITS)

test: all units ## run all unit and command-line tests (needs only a compiler; EXHAUSTIVE=1 for every case)
	B=$(B) BIN=$(B)/bin sh tests/run.sh

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
	@clang-format --dry-run -Werror $(FORMATTED)
	sh scripts/check-clangd.sh
	cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr --enable=warning,portability \
		--suppressions-list=tests/cppcheck.txt -Iinclude -Isrc -Itools -DGG_HAVE_L1 src tools
	shellcheck -S warning -s sh scripts/*.sh scripts/*/*.sh $(SCRIPTS) tests/*.sh \
		$(foreach d,cli fuzz mutants schedulers web,tests/$d/*.sh)
	shellcheck -S warning -s bash scripts/completion/organ .ci/run

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
	CPPFLAGS="-Dfsync=fuzz_fsync -Dpthread_create=fuzz_pthread_create" LDFLAGS="$(2)" FUZZ_ENGINE=-fsanitize=fuzzer OPTIONS=$(CURDIR)/$(B)/options.tsv fuzz-targets
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

bench: all $(BENCHES) $(B)/test/cost $(B)/test/mkmodel ## print goals and figures (SAVE=FILE, AGAINST=FILE|COMMIT; LARGE=1: of a 14B)
	BIN=$(B)/bin BENCH=$(B)/bench SAVE='$(SAVE)' AGAINST='$(AGAINST)' LARGE='$(LARGE)' sh tests/bench/run.sh
peers: all $(BENCHES) $(B)/test/cost ## compare whole programs with what a user would take instead
	BIN=$(B)/bin BENCH=$(B)/bench sh tests/bench/peers.sh
instructions: all $(B)/bench/bench_count $(B)/bench/bench_model ## count instructions per value under qemu, compare them with tests/bench/instructions.tsv (UPDATE=1)
	BIN=$(B)/bin BENCH=$(B)/bench UPDATE='$(UPDATE)' sh tests/bench/instructions.sh
results: all $(B)/bench/bench_model $(B)/test/cost $(B)/test/permute ## measure the figures of the pages again (LAB=DIR, PARTS=...)
	BIN=$(B)/bin BENCH=$(B)/bench COST=$(B)/test/cost PERMUTE=$(B)/test/permute sh tests/engine/results.sh

test-engine: all ## load written models in a real engine (needs node and npm)
	BIN=$(B)/bin sh tests/engine/run.sh
test-web: all units ## use the page of organ-serve in a browser (needs chromium, node and lighttpd)
	B=$(B) BIN=$(B)/bin sh tests/web/run.sh
test-schedulers: all units ## run organ-fleet with a real Slurm (as root), sshd and rclone on 127.0.0.1 (Debian: three minutes)
	B=$(B) BIN=$(B)/bin sh tests/schedulers/run.sh
test-bare: ## run the README's commands in minimal roots of Debian 12 and 13 (needs root, mmdebstrap and git)
	sh tests/bare.sh

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

# ---- install -------------------------------------------------------------------

SCRIPTS := $(sort $(filter-out %.sh %.mk %.awk,$(wildcard scripts/organ scripts/organ-*)))

# One list for install and uninstall: FROM:FOLDER:NAME:MODE. FOLDER is the name of a
# variable, because its value may have spaces.
BUILT_PROBE = $(wildcard $(B)/bin/organ-probe)
PROGRAMS = $(notdir $(BINS) $(BUILT_PROBE) $(SCRIPTS))
define INSTALL_LIST
$(foreach f,$(BINS) $(BUILT_PROBE),$(f):bindir:$(notdir $(f)):755 )\
$(foreach f,$(SCRIPTS),$(f):bindir:$(notdir $(f)):755 )\
$(LIB):libdir:libgguf.a:644 scripts/libgguf.pc.in:pkgconfigdir:libgguf.pc:644 \
$(foreach f,$(wildcard include/organ/*.h),$(f):includedir:organ/$(notdir $(f)):644 )\
$(foreach f,$(wildcard docs/man/*.1),$(f):mandir:man1/$(notdir $(f)):644 )\
$(foreach f,$(wildcard docs/man/*.5),$(f):mandir:man5/$(notdir $(f)):644 )\
README.md:docdir:README.md:644 LICENSE:docdir:LICENSE:644 docs/NEWS.md:docdir:NEWS.md:644 \
$(foreach f,$(wildcard docs/*.md docs/*.json docs/*.yaml docs/*.svg),$(f):docdir:$(f):644 )\
$(foreach f,$(PROGRAMS),$(B)/completion/organ:bashcompdir:$(f):644 )\
$(foreach f,$(PROGRAMS),$(B)/completion/organ.fish:fishcompdir:$(f).fish:644 )\
$(B)/completion/_organ:zshcompdir:_organ:644 \
$(foreach f,$(EXAMPLES),$(f):pkgdatadir:examples/$(notdir $(f)):644 )\
$(foreach f,$(ENGINE),$(f):pkgdatadir:engine/$(notdir $(f)):$(if $(filter %.sh,$(f)),755,644) )\
$(foreach f,$(DATA),$(f):pkgdatadir:$(f):644 )
endef
DATA := $(wildcard scripts/chimera.mk $(addprefix scripts/,$(addsuffix /*,lib recipes fleet report search serve stream validate)))
ENGINE := $(addprefix tests/engine/,engine.mjs install.sh package.json package-lock.json README.md)
# Files named by the examples of --help and of the manual pages.
EXAMPLES := $(wildcard tests/data/lab/lab-*-q4_k_m.gguf tests/data/lab/text-*.txt) tests/data/lab/lab-verse.imatrix.gguf
INSTALL_VARS := DESTDIR prefix exec_prefix bindir libdir includedir mandir docdir pkgdatadir \
	pkgconfigdir bashcompdir zshcompdir fishcompdir version
INSTALL_DIRS = $(foreach v,$(INSTALL_VARS),export $(v)='$(subst ','\'',$($(v)))';)
INSTALL_ITEM = from=$${x%%:*}; x=$${x\#*:}; x=$${x%:*}; eval "to=\$$DESTDIR\$$$${x%%:*}/$${x\#*:}"
# Paths in installed texts are replaced by the installed paths.
INSTALL_COPY = case $$from in docs/man/* | *.pc.in | scripts/organ | scripts/organ-*) awk -f scripts/install.awk "$$from" > "$$to" ;; *) cp "$$from" "$$to" ;; esac

# Completion is made from the table of all options.
completion/organ := bash
completion/_organ := zsh
completion/organ.fish := fish
$(patsubst %,$(B)/completion/%,organ _organ organ.fish): $(B)/%: $(B)/options.tsv $(wildcard scripts/completion/*)
	@{ awk -v shell=$($*) -f scripts/completion/generate.awk $< && \
		case $($*) in bash) cat scripts/completion/organ ;; esac; } > $@.tmp && mv $@.tmp $@

install: all ## copy tools, library, headers, scripts and pages below DESTDIR/PREFIX
	@$(INSTALL_DIRS) for mode in 644 755; do \
		set --; \
		for x in $(INSTALL_LIST); do \
			[ "$${x##*:}" = $$mode ] || continue; \
			$(INSTALL_ITEM); set -- "$$@" "$$to"; \
			[ -d "$${to%/*}" ] || mkdir -p "$${to%/*}" && $(INSTALL_COPY) || exit 1; \
		done; \
		chmod $$mode "$$@" || exit 1; \
	done

uninstall: ## remove the installed files, and folders that become empty
	@$(INSTALL_DIRS) for x in $(INSTALL_LIST); do \
		$(INSTALL_ITEM); set -- "$$@" "$$to"; \
	done; \
	rm -f "$$@"; last=; for x in $(INSTALL_LIST); do \
		$(INSTALL_ITEM); d=$${to%/*}; [ "$$d" != "$$last" ] || continue; \
		last=$$d; while [ "$$d" != "$$DESTDIR" ] && [ -n "$$d" ] && rmdir "$$d" 2>/dev/null; do d=$${d%/*}; done; \
	done

dist: all dist-source ## write archives of the sources and of static tools per system, with checksums, to build/dist (needs npm)
	@OPTIONS=$(B)/options.tsv sh scripts/packaging/dist.sh systems $(version) $(B)/dist
dist-source: ## write a reproducible source archive and a Homebrew formula to build/dist
	@sh scripts/packaging/dist.sh source $(version) $(B)/dist
dist-static: ## the same with static tools, built by musl-gcc
	@sh scripts/packaging/dist.sh static $(version) $(B)/dist
deb: ## build a Debian package in build/dist (needs dpkg-dev)
	@sh scripts/packaging/dist.sh deb $(version) $(B)/dist

clean: ## remove everything built
	rm -rf $(B)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

-include $(OBJ:.o=.d)
