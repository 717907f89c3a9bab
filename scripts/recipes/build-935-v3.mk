# build-935 v3: the rebuilt header. As v2 with a donor of another quantization: the
# header is written anew, every offset and padding with it, and file_type follows.
#
# Learned: bytes patched under an old header do not load; sizes, offsets and types are
# planned together. On the bundled pair: code 11.4, verse 21.7, as v2 within 0.1 %.
include $(dir $(lastword $(MAKEFILE_LIST)))lab.mk
donor.type  := organ
donor.match := retype
# The bundled donor has the base's types: re-encode it, so that there is a header to rebuild.
ifeq ($(DONOR),$(LAB)/lab-code-q4_k_m.gguf)
donor.model := $(OUTPUT).donor-q8_0.gguf
$(shell set -e; [ $(donor.model) -nt $(DONOR) ] || { t=$$(mktemp -d); \
	$(BIN)/organ-extract -q $(DONOR) --output $$t/d >&2 && \
	$(BIN)/organ-assemble -q $$t/d --output $(donor.model) --dtype '*=q8_0' --force >&2; rm -rf $$t; })
endif
include $(here)/../chimera.mk
