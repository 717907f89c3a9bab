# chimera.mk - builds a chimera from a recipe (GNU make), a short Makefile that includes it:
#
#     BASE   := verse.gguf            # model, shard of a split model, or organ directory
#     OUTPUT := chimera.gguf
#     DONORS := code lora             # names of your choice, grafted in this order
#     code.model  := code.gguf
#     code.type   := organ            # --type
#     code.layers := 1-2              # --layers
#     include chimera.mk
#
# Then `make` builds OUTPUT, `make check` shows what would move and what does not match, and
# `make clean` removes what was built. Nothing runs if nothing changed. With KEEP=1 a step is repeated
# only when its inputs or its part of the recipe changed, so a changed donor rebuilds only what depends on it.
#
# Variables of a donor X (only X.model is required):
#     X.model    X.type    X.layers   X.tensors   X.experts   X.router=1
#     X.map      X.match   X.blend    X.ancestor  X.add=1     X.skip=1 (--skip-mismatched)
#     X.purify=haar|fft    X.strength             (filters the donor's organs before the graft)
#     X.adapter=1  X.scale  (X.model is a LoRA file, applied to what was built so far)
# Variables of the chimera:
#     DTYPE     FALLBACK (organ-assemble --dtype, --fallback)
#     PURIFY=haar|fft  STRENGTH  PURIFY_TYPE  (filters the chimera's organs at the end)
#     NAME      general.name of the output
#     STRICT=1  stop wherever `make check` fails, also if the models share no lineage
#     MERGE     a method of organ-merge with its parameters, such as ties,density=0.3. BASE and
#               the models in MODELS (names like DONORS) are merged instead of grafted; X.parameters
#               are those of one model, such as weight=0.6,weight:ffn=0.3, and MERGE_OPTIONS are
#               more options of organ-merge, such as --align
#     DIRECT=1  one organ-transplant per donor, no organs on disk
#     KEEP=1    keep the result of every step in WORK; otherwise they are removed when OUTPUT
#               is done, and a changed donor means starting from BASE again
#     WORK      folder of the steps (default OUTPUT.work)      BIN  folder of the tools
#
# Models may be targets of other rules of the Makefile, for example other chimeras. See
# docs/chimera.md.

spelling := $(wildcard $(dir $(lastword $(MAKEFILE_LIST)))lib/nearest.awk)
stepper  := $(wildcard $(dir $(lastword $(MAKEFILE_LIST)))recipes/step.sh)
alone    := $(filter 1-0,$(words $(MAKEFILE_LIST))-$(MAKELEVEL))
OUTPUT   ?= chimera.gguf
WORK     ?= $(OUTPUT).work
PURIFY_TYPE ?= organ
# A step of the recipe runs through recipes/step.sh. make 3.81 has no .SHELLFLAGS for that.
SHELL     = /bin/sh$(if $(stepper),$(if $(doing-$@), $(call q,$(stepper)) $(call q,$(place))))
ifeq ($(origin NAME),environment)
NAME     := # ignore it: some systems export NAME
endif

q         = '$(subst ','\'',$(strip $(1)))'
tool      = $(if $(word 2,$(BIN)),$(call q,$(strip $(BIN))/$(1)),$(if $(BIN),$(strip $(BIN))/)$(1))
on        = $(filter 1 yes true,$($(1)))

# In "X.model := x.gguf   # why" make keeps the blanks before the comment: remove them.
$(foreach v,BASE OUTPUT WORK $(foreach d,$(DONORS) $(MODELS),$(d).model $(d).ancestor),$(if $($(v)),$(eval $(v) := $(strip $($(v))))))

# A misspelt variable is an error, because ignoring it would silently change the recipe.
# Refused are: unknown variables of a donor; unknown variables on the command line, unless
# this file is part of a larger Makefile or run by another make; and any variable that
# differs by one letter from a known one. RECIPE_VARIABLES lists those that an including
# Makefile adds.
donor_variables  := model type layers tensors experts router map match blend ancestor add skip \
                    purify strength adapter scale parameters
global_variables := BASE OUTPUT DONORS WORK DTYPE FALLBACK PURIFY STRENGTH PURIFY_TYPE NAME \
                    STRICT DIRECT KEEP BIN MERGE MODELS MERGE_OPTIONS RECIPE_VARIABLES $(RECIPE_VARIABLES)
# A candidate gets the letter d if it must be known, else f.
candidate  = $(if $(filter $(foreach d,$(DONORS) $(MODELS),$(d).%),$(1)),d$(1),$(if $(findstring command line,$(origin $(1))),\
             $(if $(alone),d,f)$(1),$(if $(filter file override,$(origin $(1))),f$(1))))
known     := $(global_variables) $(foreach d,$(DONORS) $(MODELS),$(donor_variables:%=$(d).%))
given     := $(filter-out dMAKE% fMAKE% dCC fCC dSHELL fSHELL d-% f-% f.%,$(foreach v,$(.VARIABLES),$(call candidate,$(v))))
misspelt  := $(if $(spelling),$(shell awk -v known=$(call q,$(known)) -v given=$(call q,$(given)) -f $(call q,$(spelling))))
$(if $(misspelt),$(error $(misspelt)))

# A path must be one word for make. It is quoted for the shell.
hard      := % : \# $$ \ ; | = * ? [ ] ~ &
one_path  = $(if $(filter 1,$(words $($(1)))),,$(error $(if $(strip $($(1))),$(1) must be one path without spaces but is '$($(1))'. Link the file under another name,$(1) is not set. Run make $(1)=model.gguf))) \
            $(foreach c,$(hard),$(if $(findstring $(c),$(subst $$,$$,$($(1)))),$(error make cannot use a path with '$(c)': $(1) is '$($(1))'. Rename the file, or link it under another name)))\
            $(if $(filter %$(close),$($(1))),$(error make cannot use a path that ends in '$(close)': $(1) is '$($(1))'. Rename the file, or link it under another name))
close     := )
$(foreach v,BASE OUTPUT WORK $(DONORS:%=%.model) $(MODELS:%=%.model) $(foreach d,$(DONORS),$(if $($(d).ancestor),$(d).ancestor)),$(call one_path,$(v)))
ifneq ($(words $(DONORS)),$(words $(sort $(DONORS))))
$(error DONORS lists a name twice: $(DONORS))
endif
ifneq ($(findstring /,$(DONORS)),)
$(error DONORS must be names of your choice without a slash but is '$(DONORS)'. Set X.model to the file of donor X)
endif
ifneq ($(filter chimera check clean $(BASE) $(foreach d,$(DONORS) $(MODELS),$($(d).model)),$(OUTPUT)),)
$(error OUTPUT must not be $(OUTPUT), which is an input or a target of chimera.mk)
endif

# The files of a model, as prerequisites: its file, all its shards, or those of a directory.
shards    = $(if $(findstring -of-,$(1)),$(wildcard $(shell printf '%s' $(call q,$(1)) | sed -n 's/-[0-9]\{5\}\(-of-[0-9]\{5\}\.gguf\)$$/-?????\1/p')))
files_of  = $(if $(wildcard $(1)/manifest.json),$(1)/manifest.json $(wildcard $(1)/*/*.bin),$(or $(call shards,$(1)),$(1)))

# Options for the selection of a donor and for its graft.
opt       = $(if $(strip $($(1).$(2))),--$(or $(3),$(2)) $(call q,$($(1).$(2))))
flag      = $(if $(call on,$(1).$(2)),--$(or $(3),$(2)))
select    = $(foreach o,type layers tensors experts,$(call opt,$(1),$(o)))
match     = $(foreach o,map match blend ancestor,$(call opt,$(1),$(o))) \
            $(call flag,$(1),router) $(call flag,$(1),add) $(call flag,$(1),skip,skip-mismatched)
purify    = $(if $(strip $($(1).purify)),$(call opt,$(1),purify,method) $(call opt,$(1),strength) $(call opt,$(1),type))
graft     = $(strip $(if $(call on,$(1).adapter),--adapter $(call q,$($(1).model)) $(call opt,$(1),scale),--source $(call q,$(2))) $(call select,$(1)) $(call match,$(1)))
inputs    = $(call files_of,$($(1).model)) $(if $(strip $($(1).ancestor)),$(call files_of,$($(1).ancestor)))
named     = $(if $(strip $(NAME)),--set-kv $(call q,general.name=str:$(NAME)))
# The --check of a donor, whose table is kept in WORK; adapters have none.
strict    = $(if $(call on,STRICT),$(if $(call on,$(1).adapter),,$(call tool,$(2)) $(3) $(call select,$(1)) $(call match,$(1)) --check > $(call q,$(WORK)/check-$(1).tsv)))

how_pure  = --method $(call q,$(PURIFY)) $(if $(strip $(STRENGTH)),--strength $(call q,$(STRENGTH))) --type $(call q,$(PURIFY_TYPE))
assemble  = $(if $(strip $(DTYPE)),--dtype $(call q,$(DTYPE))) $(if $(strip $(FALLBACK)),--fallback $(call q,$(FALLBACK))) $(named)
.DELETE_ON_ERROR:
.PHONY: chimera check clean FORCE
chimera: $(OUTPUT)
.DEFAULT_GOAL := chimera

# stamp NAME,TEXT: WORK/NAME.recipe is rewritten only when the text of a step changes, so
# that a changed recipe repeats the step like a changed input. It is compared while make
# reads this file, so that make -q and make -n are correct.
same      = $(shell printf '%s\n' $(call q,$(2)) | cmp -s - $(call q,$(1)) 2> /dev/null && echo same)
define stamp
$(WORK)/$(1).recipe: $(if $(call same,$(WORK)/$(1).recipe,$(2)),,FORCE)
	@mkdir -p $(call q,$(WORK))
	@printf '%s\n' $(subst $$,$$$$,$(call q,$(2))) > $$(call q,$$@)
endef

# count TARGET,WHAT: counts a step of the recipe. `say`, the first line of its commands, prints which
# of how many it is and what it makes, on stderr. recipes/step.sh says how to go on if it is interrupted.
silent   := $(findstring s,$(filter-out -%,$(firstword $(MAKEFLAGS))))
counted  :=
place     = step $(firstword $(subst :, ,$(filter %:$@,$(counted)))) of $(words $(counted))
say       = @$(if $(silent),:,echo $(call q,chimera.mk: $(place): $(doing-$@) -> $(@:/manifest.json=)) >&2)
define count
counted += $$(words $$(counted) next):$(1)
doing-$(1) := $(2)
endef

steps :=

# ---- merged ----------------------------------------------------------------------
ifneq ($(strip $(MERGE)),)

$(if $(strip $(MODELS)),,$(error MERGE needs MODELS, the names of the models to merge))
$(foreach v,DONORS PURIFY DIRECT,$(if $(strip $($(v))),$(error $(v) cannot be combined with MERGE: use the result as the BASE of another recipe)))
comma := ,
merge := --method $(call q,$(MERGE)) --base $(call q,$(BASE)) \
         $(foreach m,$(MODELS),--model $(call q,$($(m).model)$(if $(strip $($(m).parameters)),$(comma)$(strip $($(m).parameters))))) \
         $(if $(strip $(DTYPE)),--dtype $(call q,$(DTYPE))) $(if $(strip $(FALLBACK)),--fallback $(call q,$(FALLBACK))) \
         $(named) $(if $(call on,STRICT),--strict) $(MERGE_OPTIONS)
$(eval $(call stamp,merge,$(merge)))
$(eval $(call count,$(OUTPUT),merge $(MODELS) into $(BASE)))
$(OUTPUT): $(call files_of,$(BASE)) $(foreach m,$(MODELS),$(call files_of,$($(m).model))) $(WORK)/merge.recipe
	$(say)
	$(call tool,organ-merge) -q $(merge) --output $(call q,$@) --force

check:
	$(call tool,organ-merge) $(merge) --check

# ---- through organ directories ---------------------------------------------------
else ifeq ($(call on,DIRECT),)

# step NAME,DEPENDS: makes a directory; the target is its manifest, which is written last.
step = $(WORK)/$(1).organs/manifest.json: $(2) $(WORK)/$(1).recipe

$(eval $(call stamp,base,$(BASE)))
$(eval $(call count,$(WORK)/base.organs/manifest.json,take the base apart))
$(call step,base,$(call files_of,$(BASE)))
	$(say)
	$(call tool,organ-extract) -q $(call q,$(BASE)) --output $(call q,$(@D)) --force
last  := $(WORK)/base.organs
steps += $(last)

# pure_step DONOR: WORK/pure-DONOR.organs
define pure_step
$(call stamp,donor-$(1),$($(1).model))
$(call count,$(WORK)/donor-$(1).organs/manifest.json,take $(1) apart)
$(call step,donor-$(1),$(call files_of,$($(1).model)))
	$$(say)
	$(call tool,organ-extract) -q $(call q,$($(1).model)) --output $$(call q,$$(@D)) --force
$(call stamp,pure-$(1),$(call purify,$(1)))
$(call count,$(WORK)/pure-$(1).organs/manifest.json,purify $(1))
$(call step,pure-$(1),$(WORK)/donor-$(1).organs/manifest.json)
	$$(say)
	$(call tool,organ-purify) -q --dir $(call q,$(WORK)/donor-$(1).organs) --output $$(call q,$$(@D)) $(call purify,$(1)) --force > $(call q,$(WORK)/purify-$(1).tsv)
steps += $(WORK)/donor-$(1).organs $(WORK)/pure-$(1).organs
endef

# graft_step DONOR,PREVIOUS,SOURCE,FILES: WORK/graft-DONOR.organs
define graft_step
$(call stamp,graft-$(1),$(call graft,$(1),$(3)) to $(2) $(if $(call on,STRICT),strict))
$(call count,$(WORK)/graft-$(1).organs/manifest.json,graft $(1))
$(call step,graft-$(1),$(2)/manifest.json $(4))
	$$(say)
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
$(eval $(call stamp,pure,$(how_pure) of $(last)))
$(eval $(call count,$(WORK)/pure.organs/manifest.json,purify))
$(call step,pure,$(last)/manifest.json)
	$(say)
	$(call tool,organ-purify) -q --dir $(call q,$(unpurified)) --output $(call q,$(@D)) $(how_pure) --force > $(call q,$(WORK)/purify.tsv)
last  := $(WORK)/pure.organs
steps += $(last)
endif

assembled := $(last)
$(eval $(call stamp,assemble,$(assembled) $(assemble)))
$(eval $(call count,$(OUTPUT),assemble))
$(OUTPUT): $(assembled)/manifest.json $(WORK)/assemble.recipe
	$(say)
	$(call tool,organ-assemble) -q $(call q,$(assembled)) --output $(call q,$@) $(assemble) --force
	$(if $(call on,KEEP),,$(if $(steps),rm -rf $(foreach s,$(steps),$(call q,$(s)))))

# A missing intermediate step does not cause a rebuild. An existing one is complete, so make
# never has to delete a half-written manifest.
.SECONDARY .PRECIOUS: $(steps:%=%/manifest.json)

# ---- directly ----------------------------------------------------------------------
else

$(if $(strip $(DONORS)),,$(error DIRECT=1 needs DONORS))
$(foreach v,PURIFY DTYPE $(foreach d,$(DONORS),$(addprefix $(d).,purify adapter experts router)),\
	$(if $(strip $($(v))),$(error $(v) needs organ directories: leave out DIRECT=1)))

# direct_step DONOR,PREVIOUS,RESULT
define direct_step
$(call stamp,direct-$(1),$(2) $($(1).model) $(call select,$(1)) $(call match,$(1)) $(if $(filter $(OUTPUT),$(3)),$(named)) $(if $(call on,STRICT),strict))
$(call count,$(3),transplant $(1))
$(3): $(call files_of,$(2)) $(call inputs,$(1)) $(WORK)/direct-$(1).recipe
	$$(say)
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

ifeq ($(strip $(MERGE)),)
# Shows what each donor would move into the base; fails if something does not match.
check:
	@status=0; $(foreach d,$(DONORS),$(if $(call on,$(d).adapter),,\
	echo '# $(d)'; $(call tool,organ-graft) --source $(call q,$($(d).model)) --target $(call q,$(BASE)) $(call select,$(d)) $(call match,$(d)) --check || status=1;)) exit $$status
endif

clean:
	rm -rf $(call q,$(WORK)) $(call q,$(OUTPUT))

# Wrong values of options end make before the first step: each tool is started with its options and without a
# model. Other errors than those of usage (2) are left to the step.
wrong     = $(shell why=$$($(1) 2>&1 > /dev/null < /dev/null); [ $$? -ne 2 ] || printf '%s\n' "$$why")
no_output = $(call q,$(WORK)/none)
tried     = $(foreach d,$(DONORS),$(call wrong,$(call tool,organ-graft) -q $(call graft,$(d),$($(d).model)) --target /dev/null --output $(no_output)) \
            $(if $(strip $($(d).purify)),$(call wrong,$(call tool,organ-purify) -q --dir /dev/null --output $(no_output) $(call purify,$(d))))) \
            $(if $(strip $(PURIFY)),$(call wrong,$(call tool,organ-purify) -q --dir /dev/null --output $(no_output) $(how_pure))) \
            $(if $(strip $(DTYPE)$(FALLBACK)),$(call wrong,$(call tool,organ-assemble) -q $(call q,$(BASE)) $(assemble) --dry-run))
ifneq ($(filter-out clean,$(or $(MAKECMDGOALS),chimera)),)
$(if $(strip $(tried)),$(error $(strip $(tried))))
endif
