# lab.mk - the defaults of all recipes: the bundled models, unless you name others.
#
#     make -f scripts/recipes/build-935-v2.mk                          bundled models
#     make -f scripts/recipes/build-935-v2.mk BASE=a.gguf DONOR=b.gguf OUTPUT=c.gguf
#
# Everything of chimera.mk works here too: `... check`, `... clean`, KEEP=1, NAME=, STRICT=1,
# more donors. You can run it from any folder. The tools are taken from the build tree or the
# installation that contains this file, or else from $PATH.
# If the absolute path has a space, use the relative one, which may have none.
full   = $(if $(word 2,$(abspath $(1))),$(1),$(abspath $(1)))
here   := $(call full,$(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST)))))
top    := $(call full,$(here)/../..)
BIN    ?= $(patsubst %/organ-graft,%,$(firstword $(wildcard $(top)/build/bin/organ-graft $(call full,$(top)/../../bin)/organ-graft)))
LAB    ?= $(top)/tests/data/lab
recipe := $(basename $(notdir $(firstword $(MAKEFILE_LIST))))
OUTPUT ?= $(recipe).gguf

RECIPE_VARIABLES += LAB DONOR

# Of a merge, the base is the model that the others come from.
ifdef MERGE
BASE   ?= $(LAB)/lab-base-q4_k_m.gguf
verse.model ?= $(LAB)/lab-verse-q4_k_m.gguf
MODELS ?= $(if $(filter-out file undefined default,$(origin DONOR)),,verse) donor
DONORS :=
endif
BASE   ?= $(LAB)/lab-verse-q4_k_m.gguf
DONOR  ?= $(LAB)/lab-code-q4_k_m.gguf
ifneq ($(filter $(LAB)/%,$(BASE) $(DONOR)),)
ifeq ($(wildcard $(LAB)/lab-verse-q4_k_m.gguf),)
$(error the lab models are not installed ($(LAB)): name the models with BASE= and DONOR=)
endif
endif
donor.model ?= $(DONOR)
DONORS      ?= donor
