# lab.mk - what every recipe starts from: the bundled models, unless others are named.
#
#     make -f scripts/recipes/build-935-v2.mk                          bundled models
#     make -f scripts/recipes/build-935-v2.mk BASE=a.gguf DONOR=b.gguf OUTPUT=c.gguf
#
# Run from anywhere; the tools are those of the build, or of $PATH once installed.
here   := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))
top    := $(abspath $(here)/../..)
BIN    ?= $(wildcard $(top)/build/bin)
LAB    ?= $(top)/tests/data/lab
BASE   ?= $(LAB)/lab-verse-q4_k_m.gguf
DONOR  ?= $(LAB)/lab-code-q4_k_m.gguf
recipe := $(basename $(notdir $(firstword $(MAKEFILE_LIST))))
OUTPUT ?= $(recipe).gguf
donor.model ?= $(DONOR)
DONORS ?= donor
