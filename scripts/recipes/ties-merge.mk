# ties merge: two fine-tunes are merged into their base. Of each difference from the base the
# larger half is kept, and only values that agree in sign are added. Name the models with BASE=
# and DONOR=; MERGE= changes the method.
#
# Lesson: a merge changes all tensors of the base a little, where a graft replaces some of
# them. The models must come from the same base.
MERGE  ?= ties,density=0.5,weight=1
me := $(or $(wildcard $(lastword $(MAKEFILE_LIST))),$(error $(MAKEFILE_LIST): make cannot include from a path with spaces))
include $(dir $(me))lab.mk
include $(here)/../chimera.mk
