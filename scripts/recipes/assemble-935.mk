# assemble-935: a chimera of two 14B models, organ by organ. The skeleton, embeddings and
# norms come from the base, and the purified FFN from the donor. Name the models with BASE=
# and DONOR=; KEEP=1 keeps the organs, so that you can measure them.
#
# Lesson: two models of the same shape need not share a lineage. `... check` reports this
# before 2 x 9 GB are copied. Perplexity of the bundled models (haar, default
# strength): code 11.4, verse 21.7.
donor.type   := organ
donor.purify := haar
me := $(or $(wildcard $(lastword $(MAKEFILE_LIST))),$(error $(MAKEFILE_LIST): make cannot include from a path with spaces))
include $(dir $(me))lab.mk
include $(here)/../chimera.mk
