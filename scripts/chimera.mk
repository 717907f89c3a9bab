# chimera.mk - a chimera by recipe (GNU make). A Makefile of a few lines includes it:
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
# `make clean` removes what was built. A step is done again only when its inputs or its
# part of the recipe changed: touch a donor, and only what depends on it is built.
#
# Of a donor X (only X.model is needed):
#     X.model    X.type    X.layers   X.tensors   X.experts   X.router=1
#     X.map      X.match   X.blend    X.ancestor  X.add=1     X.skip=1 (--skip-mismatched)
#     X.purify=haar|fft    X.strength             (the donor's organs, before the graft)
#     X.adapter=1  X.scale  (X.model is a LoRA file, folded into what was built before it)
# Of the chimera:
#     DTYPE     FALLBACK (organ-assemble --dtype, --fallback)
#     PURIFY=haar|fft  STRENGTH  PURIFY_TYPE  (the chimera's organs, at the end)
#     NAME      general.name of the output
#     STRICT=1  stop where `make check` would: at strangers too, not at misfits alone
#     DIRECT=1  one organ-transplant a donor, no organs on disk
#     KEEP=1    keep what every step made, in WORK; without it all goes when OUTPUT is
#               done, and a changed donor means starting from BASE
#     WORK      folder of the steps (default OUTPUT.work)      BIN  folder of the tools
#
# Models may be targets of other rules of the Makefile, chimeras too. More: docs/chimera.md

OUTPUT   ?= chimera.gguf
WORK     ?= $(OUTPUT).work
PURIFY_TYPE ?= organ
SHELL    := /bin/sh
ifeq ($(origin NAME),environment)
NAME     := # some systems export a NAME of their own
endif

q         = '$(subst ','\'',$(strip $(1)))'
tool      = $(if $(word 2,$(BIN)),$(call q,$(strip $(BIN))/$(1)),$(if $(BIN),$(strip $(BIN))/)$(1))
on        = $(filter 1 yes true,$($(1)))

# Of "X.model := x.gguf   # why" the blanks before the comment are part of the value.
$(foreach v,BASE OUTPUT WORK $(foreach d,$(DONORS),$(d).model $(d).ancestor),$(if $($(v)),$(eval $(v) := $(strip $($(v))))))

one_path  = $(if $(filter 1,$(words $($(1)))),,$(error $(1) must name one path, without spaces (make cannot tell them from two); it is '$($(1))'))
$(foreach v,BASE OUTPUT WORK $(DONORS:%=%.model),$(call one_path,$(v)))
ifneq ($(words $(DONORS)),$(words $(sort $(DONORS))))
$(error DONORS names one twice: $(DONORS))
endif
ifneq ($(findstring /,$(DONORS)),)
$(error DONORS are names of your own, without a slash, and X.model is the file; they are '$(DONORS)')
endif
ifneq ($(filter chimera check clean $(BASE) $(foreach d,$(DONORS),$($(d).model)),$(OUTPUT)),)
$(error OUTPUT cannot be $(OUTPUT), which is an input or a target of chimera.mk)
endif

# What a model is made of, for make: its file, all shards of its set, or a directory's.
shards    = $(wildcard $(shell printf '%s' $(call q,$(1)) | sed -n 's/-[0-9]\{5\}\(-of-[0-9]\{5\}\.gguf\)$$/-?????\1/p'))
files_of  = $(if $(wildcard $(1)/manifest.json),$(1)/manifest.json $(wildcard $(1)/*/*.bin),$(or $(call shards,$(1)),$(1)))

# Options of a donor's selection and of its graft.
opt       = $(if $(strip $($(1).$(2))),--$(or $(3),$(2)) $(call q,$($(1).$(2))))
flag      = $(if $(call on,$(1).$(2)),--$(or $(3),$(2)))
select    = $(foreach o,type layers tensors experts,$(call opt,$(1),$(o)))
match     = $(foreach o,map match blend ancestor,$(call opt,$(1),$(o))) \
            $(call flag,$(1),router) $(call flag,$(1),add) $(call flag,$(1),skip,skip-mismatched)
purify    = $(if $(strip $($(1).purify)),$(call opt,$(1),purify,method) $(call opt,$(1),strength) $(call opt,$(1),type))
graft     = $(strip $(if $(call on,$(1).adapter),--adapter $($(1).model) $(call opt,$(1),scale),--source $(2)) $(call select,$(1)) $(call match,$(1)))
inputs    = $(call files_of,$($(1).model)) $(if $(strip $($(1).ancestor)),$(call files_of,$($(1).ancestor)))
named     = $(if $(strip $(NAME)),--set-kv $(call q,general.name=str:$(NAME)))
# A donor's --check, its table kept for who wants to know; adapters have none.
strict    = $(if $(call on,STRICT),$(if $(call on,$(1).adapter),,$(call tool,$(2)) $(3) $(call select,$(1)) $(call match,$(1)) --check > $(WORK)/check-$(1).tsv))

.DELETE_ON_ERROR:
.PHONY: chimera check clean FORCE
chimera: $(OUTPUT)
.DEFAULT_GOAL := chimera

# stamp NAME,TEXT: WORK/NAME.recipe is rewritten only when the text of a step differs,
# so that a changed recipe does it again as a changed input does. It is compared while
# make reads this, so that make -q and make -n say the truth.
same      = $(shell printf '%s\n' $(call q,$(2)) | cmp -s - $(1) 2> /dev/null && echo same)
define stamp
$(WORK)/$(1).recipe: $(if $(call same,$(WORK)/$(1).recipe,$(2)),,FORCE)
	@mkdir -p $(WORK)
	@printf '%s\n' $(subst $$,$$$$,$(call q,$(2))) > $$@
endef

steps :=

# ---- through organ directories ---------------------------------------------------
ifeq ($(call on,DIRECT),)

# step NAME,DEPENDS: a directory whose manifest, written last, stands for it.
step = $(WORK)/$(1).organs/manifest.json: $(2) $(WORK)/$(1).recipe

$(eval $(call stamp,base,$(BASE)))
$(call step,base,$(call files_of,$(BASE)))
	$(call tool,organ-extract) -q $(BASE) --output $(@D) --force
last  := $(WORK)/base.organs
steps += $(last)

# pure_step DONOR: WORK/pure-DONOR.organs
define pure_step
$(call stamp,donor-$(1),$($(1).model))
$(call step,donor-$(1),$(call files_of,$($(1).model)))
	$(call tool,organ-extract) -q $($(1).model) --output $$(@D) --force
$(call stamp,pure-$(1),$(call purify,$(1)))
$(call step,pure-$(1),$(WORK)/donor-$(1).organs/manifest.json)
	$(call tool,organ-purify) -q --dir $(WORK)/donor-$(1).organs --output $$(@D) $(call purify,$(1)) --force > $(WORK)/purify-$(1).tsv
steps += $(WORK)/donor-$(1).organs $(WORK)/pure-$(1).organs
endef

# graft_step DONOR,PREVIOUS,SOURCE,FILES: WORK/graft-DONOR.organs
define graft_step
$(call stamp,graft-$(1),$(call graft,$(1),$(3)) to $(2) $(if $(call on,STRICT),strict))
$(call step,graft-$(1),$(2)/manifest.json $(4))
	$(call strict,$(1),organ-graft,--source $(3) --target $(2))
	$(call tool,organ-graft) -q $(call graft,$(1),$(3)) --target $(2) --output $$(@D) --link --force
last := $(WORK)/graft-$(1).organs
steps += $(WORK)/graft-$(1).organs
endef

pure  = $(WORK)/pure-$(1).organs
$(foreach d,$(DONORS),$(if $(strip $($(d).purify)),\
	$(eval $(call pure_step,$(d)))$(eval $(call graft_step,$(d),$(last),$(call pure,$(d)),$(call pure,$(d))/manifest.json $(call inputs,$(d)))),\
	$(eval $(call graft_step,$(d),$(last),$($(d).model),$(call inputs,$(d))))))

ifneq ($(strip $(PURIFY)),)
unpurified := $(last)
how_pure := --method $(call q,$(PURIFY)) $(if $(strip $(STRENGTH)),--strength $(call q,$(STRENGTH))) --type $(call q,$(PURIFY_TYPE))
$(eval $(call stamp,pure,$(how_pure) of $(last)))
$(call step,pure,$(last)/manifest.json)
	$(call tool,organ-purify) -q --dir $(unpurified) --output $(@D) $(how_pure) --force > $(WORK)/purify.tsv
last  := $(WORK)/pure.organs
steps += $(last)
endif

assembled := $(last)
assemble := $(if $(strip $(DTYPE)),--dtype $(call q,$(DTYPE))) $(if $(strip $(FALLBACK)),--fallback $(call q,$(FALLBACK))) $(named)
$(eval $(call stamp,assemble,$(assembled) $(assemble)))
$(OUTPUT): $(assembled)/manifest.json $(WORK)/assemble.recipe
	$(call tool,organ-assemble) -q $(assembled) --output $@ $(assemble) --force
	$(if $(call on,KEEP),,$(if $(steps),rm -rf $(steps)))

# Steps that are gone are no reason to build again, and one that is there is whole, so
# make never has a half-written manifest to delete.
.SECONDARY .PRECIOUS: $(steps:%=%/manifest.json)

# ---- directly ----------------------------------------------------------------------
else

$(if $(strip $(DONORS)),,$(error DIRECT=1 needs DONORS))
$(foreach v,PURIFY DTYPE $(foreach d,$(DONORS),$(addprefix $(d).,purify adapter experts router)),\
	$(if $(strip $($(v))),$(error $(v) needs organ directories: leave out DIRECT=1)))

# direct_step DONOR,PREVIOUS,RESULT
define direct_step
$(call stamp,direct-$(1),$(2) $($(1).model) $(call select,$(1)) $(call match,$(1)) $(if $(filter $(OUTPUT),$(3)),$(named)) $(if $(call on,STRICT),strict))
$(3): $(call files_of,$(2)) $(call inputs,$(1)) $(WORK)/direct-$(1).recipe
	$(call strict,$(1),organ-transplant,--base $(2) --donor $($(1).model))
	$(call tool,organ-transplant) -q --base $(2) --donor $($(1).model) $(call select,$(1)) $(call match,$(1)) $(if $(filter $(OUTPUT),$(3)),$(named)) --output $$@ --force
	$(if $(filter $(OUTPUT),$(3)),$(if $(call on,KEEP),,$(if $(steps),rm -f $(steps))))
last := $(3)
steps += $(filter-out $(OUTPUT),$(3))
endef
last := $(BASE)
$(foreach d,$(DONORS),$(eval $(call direct_step,$(d),$(last),$(if $(filter $(lastword $(DONORS)),$(d)),$(OUTPUT),$(WORK)/direct-$(d).gguf))))

.SECONDARY: $(steps)

endif

# What each donor would move into the base, and whether it fits: fails if one does not.
check:
	@status=0; $(foreach d,$(DONORS),$(if $(call on,$(d).adapter),,\
	echo '# $(d)'; $(call tool,organ-graft) --source $($(d).model) --target $(BASE) $(call select,$(d)) $(call match,$(d)) --check || status=1;)) exit $$status

clean:
	rm -rf $(WORK) $(OUTPUT)
