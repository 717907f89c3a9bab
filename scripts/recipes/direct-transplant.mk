# direct transplant: any classes, any blocks, straight from model to model. TYPE= and
# LAYERS= choose (default: the FFN of all blocks).
#
# Shows: one command that is planned before a byte is written, and then only copies.
# Default on the bundled pair: as quick-chimera v1, byte for byte.
TYPE ?= organ
donor.type   := $(TYPE)
donor.layers := $(LAYERS)
DIRECT := 1
RECIPE_VARIABLES += TYPE LAYERS
me := $(or $(wildcard $(lastword $(MAKEFILE_LIST))),$(error $(MAKEFILE_LIST): make cannot include from a path with spaces))
include $(dir $(me))lab.mk
include $(here)/../chimera.mk
