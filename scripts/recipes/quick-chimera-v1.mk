# quick-chimera v1: the donor's FFN in all blocks, with one command and no organs on disk.
#
# Lesson: if nothing is measured or purified in between, the direct transplant writes the same
# bytes as extract, graft and assemble (compare build-935-v2) and copies only once.
donor.type := organ
DIRECT := 1
me := $(or $(wildcard $(lastword $(MAKEFILE_LIST))),$(error $(MAKEFILE_LIST): make cannot include from a path with spaces))
include $(dir $(me))lab.mk
include $(here)/../chimera.mk
