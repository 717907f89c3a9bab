# build-935 v3: the rebuilt header. Like v2, but with a donor of another quantization. All
# offsets of the header are computed again, and file_type names the most frequent type.
#
# Lesson: a donor need not have the types of the base. Perplexity of the bundled models:
# code 11.4, verse 21.7, the same as v2 within 0.1 %.
me := $(or $(wildcard $(lastword $(MAKEFILE_LIST))),$(error $(MAKEFILE_LIST): make cannot include from a path with spaces))
include $(dir $(me))lab.mk
donor.type  := organ
donor.match := retype
# The bundled donor has the types of the base, so re-encode it to need a new header.
ifeq ($(DONOR),$(LAB)/lab-code-q4_k_m.gguf)
donor.model := $(OUTPUT).work/donor-q8_0.gguf
ifeq ($(KEEP),)
.INTERMEDIATE: $(donor.model)
endif
$(donor.model): $(DONOR)
	$(MAKE) -f $(here)/../chimera.mk OUTPUT=$@ BASE=$(DONOR) DONORS= DTYPE='*=q8_0' NAME=
endif
include $(here)/../chimera.mk
