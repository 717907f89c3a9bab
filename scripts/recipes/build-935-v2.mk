# build-935 v2: FFN only. The organs (what it knows) of the donor in the base's
# skeleton, all blocks.
#
# Shows: of the two halves of a block the FFN brings more of the donor (compare v1).
# On the bundled pair: perplexity on code 11.4 (base 21.2), on verse 21.7 (base 17.1).
donor.type := organ
me := $(or $(wildcard $(lastword $(MAKEFILE_LIST))),$(error $(MAKEFILE_LIST): make cannot include from a path with spaces))
include $(dir $(me))lab.mk
include $(here)/../chimera.mk
