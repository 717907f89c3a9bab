# frankenmerge: the first blocks of one model and the last blocks of another, unchanged. Choose
# the blocks with FIRST= and LAST=; they may overlap.
#
# Lesson: blocks of fine-tunes with a common base can be joined without any training, because
# neighbouring blocks expect similar inputs. Blocks at another depth work less well.
FIRST ?= 0-2
LAST  ?= 2-3
RECIPE_VARIABLES += FIRST LAST
me := $(or $(wildcard $(lastword $(MAKEFILE_LIST))),$(error $(MAKEFILE_LIST): make cannot include from a path with spaces))
include $(dir $(me))lab.mk
q    = '$(subst ','\'',$(strip $(1)))'
tool = $(if $(BIN),$(call q,$(BIN)/organ-stack),organ-stack)
.PHONY: frankenmerge check clean
.DEFAULT_GOAL := frankenmerge
frankenmerge: $(OUTPUT)
$(OUTPUT): $(BASE) $(DONOR)
	$(tool) -q $(call q,$(BASE)) $(FIRST) $(call q,$(DONOR)) $(LAST) --output $(call q,$@) --force
check:
	$(tool) $(call q,$(BASE)) $(FIRST) $(call q,$(DONOR)) $(LAST) --check
clean:
	rm -f $(call q,$(OUTPUT))
