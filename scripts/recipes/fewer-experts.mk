# fewer experts: a share of the expert weights of a mixture of experts (BASE=, with its importance matrix
# IMATRIX=), as fewer experts and fewer hidden units in each. With ACTIVATIONS= (organ-probe) the
# remaining units replace the removed ones. organ-search chooses the split on texts:
#
#     organ-search scripts/recipes/fewer-experts.mk --output found.mk --text tune-verse.txt --text tune-code.txt \
#       BASE=moe.gguf IMATRIX=moe.imatrix.gguf ACTIVATIONS=act.gguf
#     make -f found.mk OUTPUT=half.gguf BASE=moe.gguf IMATRIX=moe.imatrix.gguf ACTIVATIONS=act.gguf
#
# `percent` of the experts are left. A split that the types or the number of experts in use do not allow fails,
# and is passed over.
#
# Lesson: thinner experts lose less than fewer ones, but which split is best depends on the model.
# knob percent: 50|63|75|88|100
percent := 75
SHARE ?= 50%
OUTPUT ?= fewer-experts.gguf
top := $(dir $(lastword $(MAKEFILE_LIST)))../..
BIN ?= $(patsubst %/organ-assemble,%,$(firstword $(wildcard $(top)/build/bin/organ-assemble $(top)/../../bin/organ-assemble)))
$(if $(wildcard $(lastword $(MAKEFILE_LIST))),,$(error $(MAKEFILE_LIST): make cannot include from a path with spaces))
$(if $(and $(BASE),$(IMATRIX)),,$(error name a mixture of experts with BASE=, and its importance matrix with IMATRIX=))

tool = "$(if $(BIN),$(BIN)/)$(1)"
$(OUTPUT): $(BASE) $(IMATRIX) $(ACTIVATIONS) $(firstword $(MAKEFILE_LIST))
	@arch=$$($(call tool,organ-keys) '$(BASE)' --get general.architecture) && \
	  count=$$($(call tool,organ-keys) '$(BASE)' --get "$$arch.expert_count") && \
	  left=$$(awk -v n="$$count" 'BEGIN { printf "%d", n * $(percent) / 100 + 0.5 }') && \
	  $(call tool,organ-prune) '$(BASE)' --imatrix '$(IMATRIX)' --share '$(SHARE)' --keep-experts "$$left" \
	    --by importance $(if $(ACTIVATIONS),--refit '$(ACTIVATIONS)') --output '$(OUTPUT)' --force
