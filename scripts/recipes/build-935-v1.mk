# build-935 v1: the skeleton graft. Attention (how it thinks) of the donor, everything
# else of the base.
#
# Learned: grafts work between some pairs and give padding tokens between others that look
# alike (`... check` tells which). Bundled pair: code 15.7 (base 21.2), verse 20.1 (17.1).
donor.type := skeleton
me := $(or $(wildcard $(lastword $(MAKEFILE_LIST))),$(error $(MAKEFILE_LIST): make cannot include from a path with spaces))
include $(dir $(me))lab.mk
include $(here)/../chimera.mk
