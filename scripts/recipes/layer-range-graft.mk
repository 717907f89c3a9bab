# layer-range graft: the donor's FFN in a range of blocks only (default: blocks 1-2). With
# MAP=1-2=2-3 they come from other blocks of the donor.
#
# Lesson: fewer blocks change the model less, for better and worse. Perplexity of the bundled
# models: code 15.7, verse 18.1. Blocks from another depth do not work (MAP=1-2=2-3: code
# 22.4, verse 24.9).
LAYERS ?= 1-2
donor.type   := organ
donor.layers := $(if $(MAP),,$(LAYERS))
donor.map    := $(MAP)
RECIPE_VARIABLES += LAYERS MAP
me := $(or $(wildcard $(lastword $(MAKEFILE_LIST))),$(error $(MAKEFILE_LIST): make cannot include from a path with spaces))
include $(dir $(me))lab.mk
include $(here)/../chimera.mk
