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

spelling := $(wildcard $(dir $(lastword $(MAKEFILE_LIST)))lib/nearest.awk)
alone    := $(filter 1-0,$(words $(MAKEFILE_LIST))-$(MAKELEVEL))
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

# Misspelt variables are not ignored, as that would change the recipe silently. Refused are
# unknown variables of a donor; unknown ones of the command line, where this is neither
# part of a Makefile with variables of its own nor run by another make; and others that differ by one letter from a known one.
# RECIPE_VARIABLES are those that an including Makefile adds.
donor_variables  := model type layers tensors experts router map match blend ancestor add skip \
                    purify strength adapter scale
global_variables := BASE OUTPUT DONORS WORK DTYPE FALLBACK PURIFY STRENGTH PURIFY_TYPE NAME \
                    STRICT DIRECT KEEP BIN RECIPE_VARIABLES $(RECIPE_VARIABLES)
# A candidate gets the letter d when being unknown is enough, else f.
candidate  = $(if $(filter $(DONORS:%=%.%),$(1)),d$(1),$(if $(findstring command line,$(origin $(1))),\
             $(if $(alone),d,f)$(1),$(if $(filter file override,$(origin $(1))),f$(1))))
known     := $(global_variables) $(foreach d,$(DONORS),$(donor_variables:%=$(d).%))
given     := $(filter-out dMAKE% fMAKE% dCC fCC dSHELL fSHELL d-% f-% f.%,$(foreach v,$(.VARIABLES),$(call candidate,$(v))))
misspelt  := $(if $(spelling),$(shell awk -v known=$(call q,$(known)) -v given=$(call q,$(given)) -f $(call q,$(spelling))))
$(if $(misspelt),$(error $(misspelt)))

# A path is a word for make, and quoted for the shell.
hard      := % : \# $$ \ ; | = * ? [ ] ~ &
one_path  = $(if $(filter 1,$(words $($(1)))),,$(error $(1) is not one path without spaces; it is '$($(1))'. Run make $(1)=model.gguf, or link the file under another name)) \
            $(foreach c,$(hard),$(if $(findstring $(c),$(subst $$,$$,$($(1)))),$(error make cannot hold a path with '$(c)': $(1) is '$($(1))'. Rename the file, or link it under another name)))\
            $(if $(filter %$(close),$($(1))),$(error make cannot hold a path that ends in '$(close)': $(1) is '$($(1))'. Rename the file, or link it under another name))
close     := )
$(foreach v,BASE OUTPUT WORK $(DONORS:%=%.model) $(foreach d,$(DONORS),$(if $($(d).ancestor),$(d).ancestor)),$(call one_path,$(v)))
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
graft     = $(strip $(if $(call on,$(1).adapter),--adapter $(call q,$($(1).model)) $(call opt,$(1),scale),--source $(call q,$(2))) $(call select,$(1)) $(call match,$(1)))
inputs    = $(call files_of,$($(1).model)) $(if $(strip $($(1).ancestor)),$(call files_of,$($(1).ancestor)))
named     = $(if $(strip $(NAME)),--set-kv $(call q,general.name=str:$(NAME)))
# A donor's --check, its table kept for who wants to know; adapters have none.
strict    = $(if $(call on,STRICT),$(if $(call on,$(1).adapter),,$(call tool,$(2)) $(3) $(call select,$(1)) $(call match,$(1)) --check > $(call q,$(WORK)/check-$(1).tsv)))

.DELETE_ON_ERROR:
.PHONY: chimera check clean FORCE
chimera: $(OUTPUT)
.DEFAULT_GOAL := chimera

# stamp NAME,TEXT: WORK/NAME.recipe is rewritten only when the text of a step differs,
# so that a changed recipe does it again as a changed input does. It is compared while
# make reads this, so that make -q and make -n say the truth.
same      = $(shell printf '%s\n' $(call q,$(2)) | cmp -s - $(call q,$(1)) 2> /dev/null && echo same)
define stamp
$(WORK)/$(1).recipe: $(if $(call same,$(WORK)/$(1).recipe,$(2)),,FORCE)
	@mkdir -p $(call q,$(WORK))
	@printf '%s\n' $(subst $$,$$$$,$(call q,$(2))) > $$(call q,$$@)
endef

steps :=

# ---- through organ directories ---------------------------------------------------
ifeq ($(call on,DIRECT),)

# step NAME,DEPENDS: a directory whose manifest, written last, stands for it.
step = $(WORK)/$(1).organs/manifest.json: $(2) $(WORK)/$(1).recipe

$(eval $(call stamp,base,$(BASE)))
$(call step,base,$(call files_of,$(BASE)))
	$(call tool,organ-extract) -q $(call q,$(BASE)) --output $(call q,$(@D)) --force
last  := $(WORK)/base.organs
steps += $(last)

# pure_step DONOR: WORK/pure-DONOR.organs
define pure_step
$(call stamp,donor-$(1),$($(1).model))
$(call step,donor-$(1),$(call files_of,$($(1).model)))
	$(call tool,organ-extract) -q $(call q,$($(1).model)) --output $$(call q,$$(@D)) --force
$(call stamp,pure-$(1),$(call purify,$(1)))
$(call step,pure-$(1),$(WORK)/donor-$(1).organs/manifest.json)
	$(call tool,organ-purify) -q --dir $(call q,$(WORK)/donor-$(1).organs) --output $$(call q,$$(@D)) $(call purify,$(1)) --force > $(call q,$(WORK)/purify-$(1).tsv)
steps += $(WORK)/donor-$(1).organs $(WORK)/pure-$(1).organs
endef

# graft_step DONOR,PREVIOUS,SOURCE,FILES: WORK/graft-DONOR.organs
define graft_step
$(call stamp,graft-$(1),$(call graft,$(1),$(3)) to $(2) $(if $(call on,STRICT),strict))
$(call step,graft-$(1),$(2)/manifest.json $(4))
	$(call strict,$(1),organ-graft,--source $(call q,$(3)) --target $(call q,$(2)))
	$(call tool,organ-graft) -q $(call graft,$(1),$(3)) --target $(call q,$(2)) --output $$(call q,$$(@D)) --link --force
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
	$(call tool,organ-purify) -q --dir $(call q,$(unpurified)) --output $(call q,$(@D)) $(how_pure) --force > $(call q,$(WORK)/purify.tsv)
last  := $(WORK)/pure.organs
steps += $(last)
endif

assembled := $(last)
assemble := $(if $(strip $(DTYPE)),--dtype $(call q,$(DTYPE))) $(if $(strip $(FALLBACK)),--fallback $(call q,$(FALLBACK))) $(named)
$(eval $(call stamp,assemble,$(assembled) $(assemble)))
$(OUTPUT): $(assembled)/manifest.json $(WORK)/assemble.recipe
	$(call tool,organ-assemble) -q $(call q,$(assembled)) --output $(call q,$@) $(assemble) --force
	$(if $(call on,KEEP),,$(if $(steps),rm -rf $(foreach s,$(steps),$(call q,$(s)))))

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
	$(call strict,$(1),organ-transplant,--base $(call q,$(2)) --donor $(call q,$($(1).model)))
	$(call tool,organ-transplant) -q --base $(call q,$(2)) --donor $(call q,$($(1).model)) $(call select,$(1)) $(call match,$(1)) $(if $(filter $(OUTPUT),$(3)),$(named)) --output $$(call q,$$@) --force
	$(if $(filter $(OUTPUT),$(3)),$(if $(call on,KEEP),,$(if $(steps),rm -f $(foreach s,$(steps),$(call q,$(s))))))
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
	echo '# $(d)'; $(call tool,organ-graft) --source $(call q,$($(d).model)) --target $(call q,$(BASE)) $(call select,$(d)) $(call match,$(d)) --check || status=1;)) exit $$status

clean:
	rm -rf $(call q,$(WORK)) $(call q,$(OUTPUT))
