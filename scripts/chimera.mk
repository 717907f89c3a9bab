# chimera.mk - a chimera by recipe. A Makefile of a few lines includes it:
#
#     BASE   := verse.gguf            # model, shard of a split model, or organ directory
#     OUTPUT := chimera.gguf
#     DONORS := code lora             # grafted in this order, each under a name of yours
#     code.model  := code.gguf
#     code.type   := organ            # --type
#     code.layers := 1-2              # --layers
#     include chimera.mk
#
# Then `make` builds OUTPUT, `make check` says what would move and what does not fit,
# `make clean` removes what was built. A step is done again only when its inputs
# changed: touch a donor, and only what depends on it is built.
#
# Of a donor X (only X.model is needed):
#     X.model    X.type    X.layers   X.tensors   X.experts   X.router=1
#     X.map      X.match   X.blend    X.ancestor  X.add=1     X.skip=1 (--skip-mismatched)
#     X.purify=haar|fft    X.strength             (the donor's organs, before the graft)
#     X.adapter=1  X.scale  (X.model is a LoRA file, folded into all before it)
# Of the chimera:
#     DTYPE     FALLBACK (organ-assemble --dtype, --fallback)
#     PURIFY=haar|fft  STRENGTH  PURIFY_TYPE  (the chimera's organs, at the end)
#     NAME      general.name of the output
#     DIRECT=1  one organ-transplant a donor, no organs on disk (no purify, no DTYPE)
#     KEEP=1    keep the organ directories of every step in WORK; without it they go
#               when OUTPUT is done, and a changed donor means starting from BASE
#     WORK      folder of the steps (default OUTPUT.work)      BIN  folder of the tools

BIN      ?=
tool      = $(if $(BIN),$(BIN)/)$(1)
OUTPUT   ?= chimera.gguf
WORK     ?= $(OUTPUT).work
KEEP     ?=
PURIFY_TYPE ?= organ
SHELL    := /bin/sh

ifeq ($(strip $(BASE)),)
$(error BASE is not set: name the base model)
endif
$(foreach d,$(DONORS),$(if $(strip $($(d).model)),,$(error $(d).model is not set: name the donor's model)))
ifneq ($(wildcard $(BASE)),$(BASE))
$(error BASE: $(BASE) is not there)
endif
$(foreach d,$(DONORS),$(if $(wildcard $($(d).model)),,$(error $(d).model: $($(d).model) is not there)))

# What a model is made of, for make: its file, all shards of its set, or a manifest.
shards    = $(wildcard $(shell printf '%s' '$(1)' | sed -n 's/-[0-9]\{5\}\(-of-[0-9]\{5\}\.gguf\)$$/-?????\1/p'))
files_of  = $(if $(wildcard $(1)/manifest.json),$(1)/manifest.json $(wildcard $(1)/*/*.bin),$(or $(call shards,$(1)),$(1)))

# Options of a donor's selection and of its graft.
opt       = $(if $(strip $($(1).$(2))),--$(or $(3),$(2)) '$(strip $($(1).$(2)))')
flag      = $(if $(filter 1 yes true,$($(1).$(2))),--$(or $(3),$(2)))
select    = $(call opt,$(1),type) $(call opt,$(1),layers) $(call opt,$(1),tensors) $(call opt,$(1),experts)
match     = $(call opt,$(1),map) $(call opt,$(1),match) $(call opt,$(1),blend) $(call opt,$(1),ancestor) \
            $(call flag,$(1),router) $(call flag,$(1),add) $(call flag,$(1),skip,skip-mismatched)
# The text of a step, so that a changed recipe rebuilds it as a changed input does.
stamp     = $(WORK)/$(1).recipe

.DELETE_ON_ERROR:
.PHONY: chimera check clean FORCE
chimera: $(OUTPUT)
.DEFAULT_GOAL := chimera

# write_stamp NAME TEXT: rewrite the stamp only when the text differs.
define write_stamp
$(call stamp,$(1)): FORCE
	@mkdir -p $(WORK)
	@printf '%s\n' '$(subst ','\'',$(2))' | cmp -s - $$@ || printf '%s\n' '$(subst ','\'',$(2))' > $$@
endef

number     = $(words $(1))
steps     :=

# ---- through organ directories ---------------------------------------------------
ifneq ($(DIRECT),1)

last := $(WORK)/base.organs
$(last)/manifest.json: $(call files_of,$(BASE))
	@mkdir -p $(WORK)
	$(call tool,organ-extract) -q $(BASE) --output $(@D) --force
steps += $(last)

# graft_step DONOR PREVIOUS: defines WORK/step-DONOR.organs
define graft_step
$(eval $(call write_stamp,$(1),$(call select,$(1)) $(call match,$(1)) $($(1).purify) $($(1).strength) $($(1).adapter) $($(1).scale) from $(2)))
donor_$(1) := $($(1).model)
ifneq ($(strip $($(1).purify)),)
donor_$(1) := $(WORK)/donor-$(1)-pure.organs
$(WORK)/donor-$(1).organs/manifest.json: $(call files_of,$($(1).model)) $(call stamp,$(1))
	$(call tool,organ-extract) -q $($(1).model) --output $$(@D) --force
$(WORK)/donor-$(1)-pure.organs/manifest.json: $(WORK)/donor-$(1).organs/manifest.json
	$(call tool,organ-purify) -q --dir $(WORK)/donor-$(1).organs --output $$(@D) --method $($(1).purify) \
		$(call opt,$(1),strength) $(call opt,$(1),type) --force > $(WORK)/purify-$(1).tsv
steps += $(WORK)/donor-$(1).organs $(WORK)/donor-$(1)-pure.organs
endif
$(WORK)/step-$(1).organs/manifest.json: $(2)/manifest.json $(call stamp,$(1)) \
		$(if $(strip $($(1).purify)),$(WORK)/donor-$(1)-pure.organs/manifest.json,$(call files_of,$($(1).model))) \
		$(if $(strip $($(1).ancestor)),$(call files_of,$($(1).ancestor)))
	$(call tool,organ-graft) -q $(if $(filter 1 yes true,$($(1).adapter)),--adapter $($(1).model) $(call opt,$(1),scale),--source $$(donor_$(1)) $(call select,$(1)) $(call match,$(1))) \
		--target $(2) --output $$(@D) --link --force
steps += $(WORK)/step-$(1).organs
last := $(WORK)/step-$(1).organs
endef
$(foreach d,$(DONORS),$(eval $(call graft_step,$(d),$(last))))

ifneq ($(strip $(PURIFY)),)
$(eval $(call write_stamp,purify,$(PURIFY) $(STRENGTH) $(PURIFY_TYPE)))
$(WORK)/pure.organs/manifest.json: $(last)/manifest.json $(call stamp,purify)
	$(call tool,organ-purify) -q --dir $(patsubst %/manifest.json,%,$<) --output $(@D) --method $(PURIFY) \
		$(if $(STRENGTH),--strength $(STRENGTH)) --type $(PURIFY_TYPE) --force > $(WORK)/purify.tsv
last := $(WORK)/pure.organs
steps += $(last)
endif

$(eval $(call write_stamp,assemble,$(DTYPE) $(FALLBACK) $(NAME) from $(last)))
assembled := $(last)
$(OUTPUT): $(last)/manifest.json $(call stamp,assemble)
	$(call tool,organ-assemble) -q $(assembled) --output $@ $(if $(DTYPE),--dtype '$(DTYPE)') $(if $(FALLBACK),--fallback $(FALLBACK)) \
		$(if $(NAME),--set-kv 'general.name=str:$(NAME)') --force
	$(if $(KEEP),,rm -rf $(steps))

# Steps that are gone are no reason to build again; with KEEP they stay.
ifeq ($(KEEP),)
.INTERMEDIATE: $(steps:%=%/manifest.json)
else
.SECONDARY: $(steps:%=%/manifest.json)
endif

# ---- directly ----------------------------------------------------------------------
else

last := $(BASE)
define direct_step
$(eval $(call write_stamp,$(1),$(call select,$(1)) $(call match,$(1)) from $(2)))
$(if $(filter $(lastword $(DONORS)),$(1)),$(OUTPUT),$(WORK)/step-$(1).gguf): $(call files_of,$(2)) $(call files_of,$($(1).model)) $(call stamp,$(1))
	$(call tool,organ-transplant) -q --base $(2) --donor $($(1).model) $(call select,$(1)) $(call match,$(1)) \
		$(if $(filter $(lastword $(DONORS)),$(1)),$(if $(NAME),--set-kv 'general.name=str:$(NAME)')) --output $$@ --force
last := $(if $(filter $(lastword $(DONORS)),$(1)),$(OUTPUT),$(WORK)/step-$(1).gguf)
endef
$(foreach d,$(DONORS),$(eval $(call direct_step,$(d),$(last))))
ifeq ($(KEEP),)
.INTERMEDIATE: $(filter-out $(OUTPUT),$(DONORS:%=$(WORK)/step-%.gguf))
endif

endif

# What each donor would move into the base, and whether it fits: fails if one does not.
check:
	@status=0; $(foreach d,$(DONORS),$(if $(filter 1 yes true,$($(d).adapter)),,\
	echo '# $(d)'; $(call tool,organ-graft) --source $($(d).model) --target $(BASE) $(call select,$(d)) $(call match,$(d)) --check || status=1;)) exit $$status

clean:
	rm -rf $(WORK) $(OUTPUT)
