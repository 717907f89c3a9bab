# build-935 v2: the FFN graft. The organs (FFN) of all blocks come from the donor, everything
# else from the base.
#
# Lesson: the FFN transfers more of the donor than attention does (compare v1). Perplexity of
# the bundled models: code 11.4 (base 21.2), verse 21.7 (base 17.1).
donor.type := organ
me := $(or $(wildcard $(lastword $(MAKEFILE_LIST))),$(error $(MAKEFILE_LIST): make cannot include from a path with spaces))
include $(dir $(me))lab.mk
include $(here)/../chimera.mk
