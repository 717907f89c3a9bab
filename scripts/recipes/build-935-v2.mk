# build-935 v2: FFN only. The organs (what it knows) of the donor in the base's
# skeleton, all blocks.
#
# Learned: the FFN carries most of what a donor knows, and it is the graft to try first.
# On the bundled pair: perplexity on code 11.4 (base 21.2), on verse 21.7 (base 17.1).
donor.type := organ
include $(dir $(lastword $(MAKEFILE_LIST)))lab.mk
include $(here)/../chimera.mk
