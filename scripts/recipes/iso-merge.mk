# isotropic merge: two fine-tunes are merged into their base, and all directions that they learned
# count equally. Name the models with BASE= and DONOR=.
#
# Lesson: the sum of two differences is dominated by a few directions. With equal singular values
# the others count too.
MERGE  ?= iso,t=0.6
me := $(or $(wildcard $(lastword $(MAKEFILE_LIST))),$(error $(MAKEFILE_LIST): make cannot include from a path with spaces))
include $(dir $(me))lab.mk
include $(here)/../chimera.mk
