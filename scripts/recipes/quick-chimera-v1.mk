# quick-chimera v1: one command, no organs on disk: the donor's FFN in all blocks.
#
# Shows: when nothing is measured or purified on the way, the direct transplant gives
# the same bytes as extract, graft and assemble (cmp with build-935-v2) for one copy.
donor.type := organ
DIRECT := 1
me := $(or $(wildcard $(lastword $(MAKEFILE_LIST))),$(error $(MAKEFILE_LIST): make cannot include from a path with spaces))
include $(dir $(me))lab.mk
include $(here)/../chimera.mk
