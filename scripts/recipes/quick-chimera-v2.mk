# quick-chimera v2: like v1, but blended instead of replaced. A ramp over the blocks takes
# little of the donor in the first block and much in the last.
#
# Lesson: a blend keeps more of the base than a replacement and takes less of the donor.
# Perplexity of the bundled models: code 14.3 (v1 11.4), verse 18.1 (v1 21.7).
donor.type  := organ
donor.blend := linear:0.2..0.8
DIRECT := 1
me := $(or $(wildcard $(lastword $(MAKEFILE_LIST))),$(error $(MAKEFILE_LIST): make cannot include from a path with spaces))
include $(dir $(me))lab.mk
include $(here)/../chimera.mk
