# build-935 v3: the rebuilt header. As v2 with a donor of another quantization: the
# header is written anew, every offset and padding with it; file_type says what most is.
#
# Shows: types of a donor need not be the base's; sizes, offsets and types are planned
# together. On the bundled pair: code 11.4, verse 21.7, as v2 within 0.1 %.
me := $(or $(wildcard $(lastword $(MAKEFILE_LIST))),$(error $(MAKEFILE_LIST): make cannot include from a path with spaces))
include $(dir $(me))lab.mk
donor.type  := organ
donor.match := retype
# The bundled donor has the base's types: re-encode it, so that there is a header to rebuild.
ifeq ($(DONOR),$(LAB)/lab-code-q4_k_m.gguf)
donor.model := $(OUTPUT).work/donor-q8_0.gguf
ifeq ($(KEEP),)
.INTERMEDIATE: $(donor.model)
endif
$(donor.model): $(DONOR)
	$(MAKE) -f $(here)/../chimera.mk OUTPUT=$@ BASE=$(DONOR) DONORS= DTYPE='*=q8_0' NAME=
endif
include $(here)/../chimera.mk
