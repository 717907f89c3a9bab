# build-935 v1: the skeleton graft. Attention comes from the donor, everything else from the
# base.
#
# Lesson: grafts work between some models and produce padding tokens between others that
# look alike (`... check` tells which). Perplexity of the bundled models: code 15.7 (base
# 21.2), verse 20.1 (base 17.1).
donor.type := attention
me := $(or $(wildcard $(lastword $(MAKEFILE_LIST))),$(error $(MAKEFILE_LIST): make cannot include from a path with spaces))
include $(dir $(me))lab.mk
include $(here)/../chimera.mk
