# searched merge: an isotropic merge whose strength for each part of the model, and whose share of
# each donor, organ-search can tune. Name the models with BASE= and DONOR=.
#
#     organ-search scripts/recipes/searched-merge.mk --output scripts/recipes/found.mk \
#       --text tune-verse.txt --text tune-code.txt
#
# Lesson: how much of a merge each part of a model takes matters more than the method.
# knob query: 0.2..1.6
query := 0.7
# knob key: 0.2..1.6
key := 0.7
# knob value: 0.2..1.6
value := 0.7
# knob out: 0.2..1.6
out := 0.7
# knob gate: 0.2..1.6
gate := 0.7
# knob up: 0.2..1.6
up := 0.7
# knob down: 0.2..1.6
down := 0.7
# knob embed: 0..1
embed := 0.4
# knob head: 0..1
head := 0.4
# knob norm: 0..4
norm := 2
# knob share: 0.3..0.7
share := 0.5
# knob low: 0.5..1.5
low := 1
# knob high: 0.5..1.5
high := 1

times = $(shell echo $(1) $(2) | awk '{ printf "%.4g", $$1 * $$2 }')
# The strength of a part in the first block and in the last, and evenly between them.
ramp  = $(call times,$($(1)),$(low))..$(call times,$($(1)),$(high))
parts := attn_q=query attn_k=key attn_v=value attn_output=out ffn_gate=gate ffn_up=up ffn_down=down
some  := ,
none  :=
items := $(foreach p,$(parts),t:$(firstword $(subst =, ,$(p)))=$(call ramp,$(lastword $(subst =, ,$(p)))))
MERGE ?= iso,$(subst $(none) $(none),$(some),$(strip $(items))),t:norm=$(norm),t:output.weight=$(head),t:embed=$(embed)
verse.parameters = $(if $(filter verse,$(MODELS)),weight=$(call times,2,$(share)))
donor.parameters = weight=$(shell echo $(share) | awk '{ print 2 - 2 * $$1 }')
me := $(or $(wildcard $(lastword $(MAKEFILE_LIST))),$(error $(MAKEFILE_LIST): make cannot include from a path with spaces))
include $(dir $(me))lab.mk
include $(here)/../chimera.mk
