#!/bin/sh
# arm.sh - builds everything for aarch64 with gcc, and runs the unit programs and a choice of
# command-line tests on an emulated processor, which has NEON and the SHA-2 instructions (`make
# arm`; needs gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user). ONLY=PATTERN selects other tests.
set -eu
cd "$(dirname "$0")/.."
for program in qemu-aarch64 aarch64-linux-gnu-gcc; do
    command -v "$program" > /dev/null || { echo "arm.sh: $program not found" >&2; exit 1; }
done
jobs=$(getconf _NPROCESSORS_ONLN 2> /dev/null || echo 2)
make -s -j"$jobs" all # these tools print the table of options that organ-api is built from
make -s -j"$jobs" B=build/arm CC=aarch64-linux-gnu-gcc CFLAGS="-O1 -g" LDFLAGS=-static OPTIONS=build/options.tsv all \
    units

# The tests call scripts with the names of the programs, which run them in the emulator.
emulated=$PWD/build/arm/emulated
rm -rf "$emulated"
mkdir -p "$emulated/bin" "$emulated/test"
for folder in bin test; do
    for program in build/arm/$folder/*; do
        case $program in *.d | *.o) continue ;; esac
        printf '#!/bin/sh\nexec qemu-aarch64 "%s" "$@"\n' "$PWD/$program" > "$emulated/$folder/${program##*/}"
        chmod +x "$emulated/$folder/${program##*/}"
    done
done
# These run many processes of a second each at most, and no compiler.
default='test/t_ cli/roundtrip cli/keys cli/compare cli/stack cli/lora cli/dtype cli/purify cli/patch cli/parts'
B=$emulated BIN=$emulated/bin ONLY=${ONLY:-$default} sh tests/run.sh
