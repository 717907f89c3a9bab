# direct transplant: any classes and blocks, directly from model to model. Choose them with
# TYPE= and LAYERS= (default: the FFN of all blocks).
#
# Lesson: one command plans everything before it writes, and then only copies. By default the
# result for the bundled models is that of quick-chimera v1, byte for byte.
TYPE ?= organ
donor.type   := $(TYPE)
donor.layers := $(LAYERS)
DIRECT := 1
RECIPE_VARIABLES += TYPE LAYERS
me := $(or $(wildcard $(lastword $(MAKEFILE_LIST))),$(error $(MAKEFILE_LIST): make cannot include from a path with spaces))
include $(dir $(me))lab.mk
include $(here)/../chimera.mk
