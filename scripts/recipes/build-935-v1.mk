# build-935 v1: the skeleton graft. Attention (how it thinks) of the donor, everything
# else of the base.
#
# Learned: grafts like this worked between some pairs and gave nothing but padding
# tokens between others that look alike; only a common lineage tells (`make check`).
# On the bundled pair: perplexity on code 15.7 (base 21.2), on verse 20.1 (base 17.1).
donor.type := skeleton
include $(dir $(lastword $(MAKEFILE_LIST)))lab.mk
include $(here)/../chimera.mk
