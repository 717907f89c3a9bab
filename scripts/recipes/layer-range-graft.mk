# layer-range graft: the donor's FFN in a range of blocks only; MAP= takes them from
# other blocks of the donor (MAP=1-2=2-3). Default: blocks 1-2.
#
# Shows: fewer blocks change less, of good and bad: code 15.7, verse 18.1 on the bundled
# pair; a block from another depth is a stranger (MAP=1-2=2-3: code 22.4, verse 24.9).
LAYERS ?= 1-2
donor.type   := organ
donor.layers := $(if $(MAP),,$(LAYERS))
donor.map    := $(MAP)
RECIPE_VARIABLES += LAYERS MAP
me := $(or $(wildcard $(lastword $(MAKEFILE_LIST))),$(error $(MAKEFILE_LIST): make cannot include from a path with spaces))
include $(dir $(me))lab.mk
include $(here)/../chimera.mk
