# organ suite - build, test, install. `make help` lists the targets.
#
# User variables: CC CFLAGS CPPFLAGS LDFLAGS PREFIX DESTDIR, all honoured.

CC ?= cc
AR ?= ar
CFLAGS ?= -O2 -g
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
INCDIR ?= $(PREFIX)/include
ARCHIVEDIR ?= $(PREFIX)/lib
MANDIR ?= $(PREFIX)/share/man
DATADIR ?= $(PREFIX)/share/organ-suite

B := build
WARN := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef -Wstrict-prototypes \
	-Wmissing-prototypes -Wpointer-arith -Wcast-qual -Wwrite-strings -Wvla -Wno-psabi
# No contraction and no fast-math anywhere: results are the same bits everywhere.
BASE := -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Iinclude -ffp-contract=off -fno-math-errno -pthread $(WARN)
L1 := $(if $(findstring x86_64,$(shell $(CC) -dumpmachine)),1,)
BASE += $(if $(L1),-DGG_HAVE_L1,)

SRC := $(sort $(wildcard src/*/*.c))
KERNEL := $(sort $(wildcard src/*/kernel/*.c))
TOOLS := $(patsubst tools/%.c,%,$(sort $(wildcard tools/organ-*.c)))
OBJ := $(SRC:src/%.c=$(B)/obj/%.o) $(KERNEL:src/%.c=$(B)/obj/%.l0.o) \
	$(if $(L1),$(KERNEL:src/%.c=$(B)/obj/%.l1.o),)
LIB := $(B)/lib/libgguf.a
BINS := $(TOOLS:%=$(B)/bin/%)

.PHONY: all
all: $(LIB) $(BINS) ## build the library and the tools (default)

$(B)/obj/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# Kernels: one object per instruction-set level. -O3 for the vectorizer.
$(B)/obj/%.l0.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CPPFLAGS) $(CFLAGS) -O3 -DGG_LEVEL=0 -MMD -MP -c -o $@ $<

$(B)/obj/%.l1.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CPPFLAGS) $(CFLAGS) -O3 -mavx2 -mf16c -DGG_LEVEL=1 -MMD -MP -c -o $@ $<

$(B)/obj/tools/%.o: tools/%.c
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(LIB): $(OBJ)
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcs $@ $(OBJ)

$(B)/bin/organ-%: $(B)/obj/tools/organ-%.o $(B)/obj/tools/cli.o $(B)/obj/tools/table.o $(LIB)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -pthread $(LDFLAGS) -o $@ $(filter-out $(LIB),$^) $(LIB) -lm

.PHONY: clean
clean: ## remove everything built
	rm -rf $(B)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

-include $(OBJ:.o=.d) $(patsubst %,$(B)/obj/tools/%.d,$(TOOLS) cli table)
