# assemble-935: the pair of 14B models, organ by organ: skeleton, embeddings and norms
# of the base, FFN of the donor, taken apart, purified, grafted, assembled. Name the
# pair with BASE= and DONOR=; KEEP=1 keeps the organs to measure them.
#
# Learned: two models of one shape need not be of one lineage; `... check` says so
# before 2 x 9 GB are moved. On the bundled pair (haar, default strength): code 11.4, verse 21.7.
donor.type   := organ
donor.purify := haar
me := $(or $(wildcard $(lastword $(MAKEFILE_LIST))),$(error $(MAKEFILE_LIST): make cannot include from a path with spaces))
include $(dir $(me))lab.mk
include $(here)/../chimera.mk
