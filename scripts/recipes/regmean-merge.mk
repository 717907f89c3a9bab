# regmean merge: two fine-tunes are merged into their base by samples of the inputs that their matrices
# get, in two rounds: first of the inputs of the fine-tunes, and then of the inputs of that merge. Needs
# organ-probe (make probe). Name the models with BASE= and DONOR=, and a typical text of each.
#
#     make -f scripts/recipes/regmean-merge.mk OUTPUT=merged.gguf BASE=base.gguf DONOR=code.gguf \
#       'MODELS=verse donor' verse.model=verse.gguf verse.text=verse.txt donor.text=code.txt
#
# organ-search can tune it. Give it a folder for SAMPLES, so that they are made only once:
#
#     organ-search scripts/recipes/regmean-merge.mk --output found.mk --text tune-verse.txt \
#       --text tune-code.txt --tolerance 0.0005 SAMPLES=samples BASE=base.gguf DONOR=code.gguf ...
# THREADS=1 is faster on a busy machine, and PROBE=FILE is organ-probe if it is elsewhere.
#
# Lesson: matrices that are fitted to the inputs that they will get need little tuning.
# knob front: 0..1.5
front := 0.5
# knob back: 0.2..2
back := 1.1
# knob mix: 0.2..0.8
mix := 0.5
# knob embed: 0..1
embed := 0.5
# knob head: 0..1
head := 0.3
# knob around: 0.2..1
around := 0.7
# knob norm: 0..4
norm := 2
# knob share: 0.3..0.7
share := 0.5

MERGE ?= regmean-iso,ridge=0.003,t=$(front)..$(back),share=$(mix),t:token_embd=$(embed),t:output=$(head),share:embed=$(around),t:norm=$(norm)
# The samples do not depend on what a search changes.
ROUND ?= regmean-iso,ridge=0.01,t=0.8,t:embed=0.4,t:norm=2
MERGE_OPTIONS = --no-hash
RECIPE_VARIABLES += ROUND SAMPLES ROWS THREADS PROBE $(foreach m,$(MODELS),$(m).text)
SAMPLES ?= $(OUTPUT).samples
ROWS ?= 4000
PROBE ?= $(call tool,organ-probe)
verse.text ?= $(LAB)/text-verse.txt
donor.text ?= $(LAB)/text-code.txt
verse.parameters = activations=$(SAMPLES)/verse.2.gguf,weight=$(shell echo $(share) | awk '{ printf "%.4g", 2 * $$1 }')
donor.parameters = activations=$(SAMPLES)/donor.2.gguf,weight=$(shell echo $(share) | awk '{ printf "%.4g", 2 - 2 * $$1 }')
me := $(or $(wildcard $(lastword $(MAKEFILE_LIST))),$(error $(MAKEFILE_LIST): make cannot include from a path with spaces))
include $(dir $(me))lab.mk
include $(here)/../chimera.mk

probe = @echo $(call q,$(recipe).mk: samples of $(1) -> $@) >&2; $(PROBE) -q $(THREADS:%=-j %) $(call q,$(1)) --text $(call q,$($(2).text)) --rows $(ROWS) --activations $(call q,$@) --force > /dev/null
$(OUTPUT): $(MODELS:%=$(SAMPLES)/%.2.gguf)
$(SAMPLES)/.here:
	@mkdir -p $(call q,$(@D)) && touch $(call q,$@)
$(foreach m,$(MODELS),$(eval $(SAMPLES)/$(m).1.gguf: $($(m).model) $($(m).text) $(SAMPLES)/.here ; $$(call probe,$($(m).model),$(m))))
$(foreach m,$(MODELS),$(eval $(SAMPLES)/$(m).2.gguf: $(SAMPLES)/first.gguf $($(m).text) ; $$(call probe,$(SAMPLES)/first.gguf,$(m))))
$(SAMPLES)/first.gguf: $(BASE) $(MODELS:%=$(SAMPLES)/%.1.gguf)
	@echo $(call q,$(recipe).mk: first round -> $@) >&2
	@$(call tool,organ-merge) -q --method $(ROUND) --base $(call q,$(BASE)) \
	  $(foreach m,$(MODELS),--model $(call q,$($(m).model)$(comma)activations=$(SAMPLES)/$(m).1.gguf)) -o $(call q,$@) --force
