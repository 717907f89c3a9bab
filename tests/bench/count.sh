#!/bin/sh
# count.sh [KERNEL...] - prints the instructions per value of kernels on aarch64, executed under qemu: plain C,
# plain C that the compiler vectorises, and the level with NEON and the SHA-2 instructions. Needs
# gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user. All are compiled by gcc with -O2.
set -eu
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q2_k q3_k q4_k q5_k q6_k q8_k iq4_nl iq4_xs iq3_s iq2_xs \
    iq1_s mxfp4 range moments simple gaps dot sha256
out=build/count
mkdir -p "$out"
${HOSTCC:-cc} -O2 -shared -fPIC -o "$out/insn.so" tests/bench/insn_plugin.c

# build NAME MAKE-ARGUMENT... - bench_count in $out/NAME
build() {
    name=$1
    shift
    mkdir -p "$out/$name"
    make -s -j2 B="$out/$name" CC=aarch64-linux-gnu-gcc CFLAGS=-O2 LDFLAGS=-static PACK= "$@" \
        "$out/$name/bench/bench_count" > "$out/$name.log"
}
build plain CPPFLAGS="-DGG_NO_NEON" VECTOR="-fno-tree-vectorize -fno-tree-slp-vectorize"
build auto CPPFLAGS="-DGG_NO_NEON"
build neon

# executed BUILD KERNEL N - instructions of one run
executed() {
    qemu-aarch64 -plugin "$out/insn.so" -d plugin "$out/$1/bench/bench_count" "$2" "$3" 2>&1 |
        awk '/^instructions:/ { print $2 }'
}
printf '%-10s %8s %8s %8s %10s %10s\n' kernel plain auto neon plain/neon auto/neon
for kernel; do
    for b in plain auto neon; do
        for k in "$kernel" none; do echo "$(executed "$b" $k 65536) $(executed "$b" $k 131072)"; done
    done | awk -v kernel="$kernel" '
        { n[NR] = ($2 - $1) / 65536 }
        END {
            plain = n[1] - n[2]; auto = n[3] - n[4]; neon = n[5] - n[6]
            printf "%-10s %8.2f %8.2f %8.2f %10.1f %10.1f\n", kernel, plain, auto, neon, plain / neon, auto / neon
        }'
done
