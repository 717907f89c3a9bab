# organ suite - build, test, install. `make help` lists the targets; those of developers are in tests/targets.mk.
#
# User variables: CC AR CFLAGS CPPFLAGS LDFLAGS; DESTDIR and PREFIX (or prefix), and the
# folders of the GNU standards below: make install prefix=/usr libdir=/usr/lib64
# If a flag differs from that of the last make, everything is compiled again: give `make install` the same ones.

# awk, sort and others do the same in each language: in Turkish, the capital of i is not I.
export LC_ALL := C

.DEFAULT_GOAL := all
.PHONY: FORCE all clean help units test demo install uninstall dist dist-source dist-static deb

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
# $(call quote,TEXT): one word of the shell.
quote = '$(subst ','\'',$(1))'
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
	@CC=$(call quote,$(CC)) CFLAGS=$(call quote,$(CFLAGS)) LDFLAGS=$(call quote,$(LDFLAGS)) PACK=$(call quote,$(PACK)) \
		sh scripts/flags.sh $@

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
L2_OBJ := $(if $(L1),$(B)/obj/src/quant/kernel/ksearch_l2.o)
MAIN_OBJ := $(call objects,$(MAIN))
PARTS := $(call objects,$(SRC) $(TABLES)) $(L0) $(L1_OBJ) $(L2_OBJ)
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
	src/quant/% src/numeric/% $(filter-out $(patsubst %,src/base/%.c,io output parallel status nearest),$(wildcard src/base/*.c))
$(call objects,$(filter-out $(FAST),$(SRC) $(MAIN)) $(TABLES)) $(API_OPTIONS): FLAGS = $(LOGIC)
# Where there is a level 1, few machines use level 0, which is built for size.
$(L0): FLAGS = $(if $(L1),$(LOGIC),$(VECTOR)) -DGG_LEVEL=0
$(L1_OBJ): FLAGS = $(VECTOR) -mavx2 -mf16c -DGG_LEVEL=1
$(L2_OBJ): FLAGS = $(VECTOR) -mavx2 -mf16c -mavx512f -DGG_LEVEL=2

# make V=1 prints full commands, and make -s nothing. Otherwise each is one short line.
silent = $(findstring s,$(firstword -$(MAKEFLAGS)))
say = $(if $(filter 1,$(V)),,@$(if $(silent),,$(info $()  $(1)	$@)))
FLAGS =
compile = $(CC) $(BASE) $(HARDEN) $(LEAN) $(CPPFLAGS) $(CFLAGS) $(FLAGS)
compile_rule = $(call say,CC)$(compile) -MMD -MP -c -o $@ $<
$(call objects,$(SRC) $(MAIN)): $(B)/obj/%.o: %.c
	$(compile_rule)
$(L0): $(B)/obj/%_l0.o: %.c
	$(compile_rule)
$(L1_OBJ): $(B)/obj/%_l1.o: %.c
	$(compile_rule)
$(L2_OBJ): $(B)/obj/%_l2.o: %.c
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
# The flags of all objects and programs. The file changes only if one of them does: then all are made again.
flags = $(call quote,$(CC) $(BASE) $(HARDEN) $(LEAN) $(CPPFLAGS) $(CFLAGS) $(LOGIC) $(VECTOR) $(HARDEN_LD) $(LEAN_LD) $(LDFLAGS))
$(B)/obj/flags: FORCE | $(B)/obj/list
	$(if $(ASKED),,$(error the compiler could not be asked which flags it takes))
	@echo $(flags) | cmp -s - $@ || echo $(flags) > $@
$(OBJ) $(API_OPTIONS) $(BINS): $(B)/obj/flags

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

# ---- tests ---------------------------------------------------------------------

# Unit tests are in the folders of the rooms that they test. The last seven programs are used by tests/cli.
UNITS := $(addprefix $(B)/test/,$(notdir $(basename $(sort $(wildcard tests/unit/t_*.c tests/unit/*/t_*.c)))) \
	mkmodel unpack cost permute zerodim onpty mutant)

vpath %.c tests/unit $(wildcard tests/unit/*/)
$(B)/test/%: %.c $(wildcard tests/unit/*.h) $(ROOMS) $(LIB)
	$(call say,LINK)$(compile) -Itests/unit $(LOGIC) $(HARDEN_LD) $(LEAN_LD) $(LDFLAGS) -o $@ $< $(ROOMS) $(LIB) -lm

demo: all ## take a bundled model apart, assemble it, graft, verify
	BIN=$(B)/bin sh scripts/demo.sh

units: $(UNITS)

test: all units ## run all unit and command-line tests (needs only a compiler; EXHAUSTIVE=1 for every case)
	B=$(B) BIN=$(B)/bin sh tests/run.sh

include tests/targets.mk

# ---- install -------------------------------------------------------------------

SCRIPTS := $(sort $(filter-out %.sh %.mk %.awk,$(wildcard scripts/organ scripts/organ-*)))
BUILT_PROBE = $(wildcard $(B)/bin/organ-probe)
PROGRAMS = $(notdir $(BINS) $(BUILT_PROBE) $(SCRIPTS))

# Completion is made from the table of all options.
completion/organ := bash
completion/_organ := zsh
completion/organ.fish := fish
$(patsubst %,$(B)/completion/%,organ _organ organ.fish): $(B)/%: $(B)/options.tsv $(wildcard scripts/completion/*)
	@{ awk -v shell=$($*) -f scripts/completion/generate.awk $< && \
		case $($*) in bash) cat scripts/completion/organ ;; esac; } > $@.tmp && mv $@.tmp $@

# put FOLDER MODE FILE...: copies files to a folder, or removes those that have been copied. FOLDER begins with the
# name of a variable, whose value may have spaces. FILE:NAME is installed as NAME.
put = $(foreach v,DESTDIR prefix exec_prefix bindir libdir includedir mandir docdir pkgdatadir pkgconfigdir bashcompdir \
	zshcompdir fishcompdir version,$(v)=$(call quote,$($(v)))) sh scripts/install.sh $@

install: all ## copy tools, library, headers, scripts and pages below DESTDIR/PREFIX
uninstall: ## remove the installed files, and folders that become empty
install uninstall:
	@$(put) bindir 755 $(BINS) $(BUILT_PROBE) $(SCRIPTS)
	@$(put) libdir 644 $(LIB)
	@$(put) pkgconfigdir 644 scripts/libgguf.pc.in:libgguf.pc
	@$(put) includedir/organ 644 include/organ/*.h
	@$(put) mandir/man1 644 docs/man/*.1
	@$(put) mandir/man5 644 docs/man/*.5
	@$(put) docdir 644 README.md LICENSE docs/NEWS.md
	@$(put) docdir/docs 644 docs/*.md docs/*.json docs/*.yaml docs/*.svg
	@$(put) bashcompdir 644 $(PROGRAMS:%=$(B)/completion/organ:%)
	@$(put) fishcompdir 644 $(PROGRAMS:%=$(B)/completion/organ.fish:%.fish)
	@$(put) zshcompdir 644 $(B)/completion/_organ
	@$(put) pkgdatadir/scripts 644 scripts/chimera.mk
	@for room in $(filter-out %/completion/ %/packaging/,$(sort $(dir $(wildcard scripts/*/*)))); do \
		$(put) pkgdatadir/$${room%/} 644 $$room* || exit 1; \
	done
	@# Files that examples of --help and of the manual pages name.
	@$(put) pkgdatadir/examples 644 tests/data/lab/lab-*-q4_k_m.gguf tests/data/lab/text-*.txt tests/data/lab/lab-verse.imatrix.gguf
	@$(put) pkgdatadir/engine 755 tests/engine/install.sh
	@$(put) pkgdatadir/engine 644 tests/engine/engine.mjs tests/engine/package.json tests/engine/package-lock.json tests/engine/README.md

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
ifneq ($(filter clean,$(MAKECMDGOALS)),)
.NOTPARALLEL: # make -j clean all: one after the other
endif

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

-include $(OBJ:.o=.d)
