#!/bin/sh
# dist.sh [TARGET...] - makes the archives of `make dist` in two copies of this tree, each with its own objects
# and caches of the compiler, and compares them. Then looks into them, and runs a tool of those that this machine can
# run (aarch64 needs qemu-user). Takes about 20 minutes of processor time for the four targets.
set -eu
cd "$(dirname "$0")/../.."
top=$PWD
[ $# -gt 0 ] || set -- x86_64-linux-musl aarch64-linux-musl aarch64-macos x86_64-macos
sh tests/cross/install.sh build/zig
work=$(mktemp -d "${TMPDIR:-/tmp}/dist-twice.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
passed=0 failed=0
ok() { passed=$((passed + 1)); }
bad() {
    failed=$((failed + 1))
    echo "  FAIL $*"
}

for copy in one another-path/two; do
    mkdir -p "$work/${copy%/*}"
    git clone -q "$top" "$work/$copy"
    mkdir -p "$work/$copy/build/zig"
    for part in zig node_modules .installed-lock; do ln -s "$top/build/zig/$part" "$work/$copy/build/zig/$part"; done
    (cd "$work/$copy" && env -u MAKEFLAGS -u OPTIONS TARGETS="$*" make -s dist) > "$work/log" 2>&1 || {
        tail -n 20 "$work/log"
        bad "make dist in $copy"
    }
done
one=$work/one/build/dist
for file in "$one"/*.tar.gz "$one/SHA256SUMS" "$one/organ-suite.rb"; do
    if cmp "$file" "$work/another-path/two/build/dist/${file##*/}"; then ok
    else bad "${file##*/} differs when made again"; fi
done
if (cd "$one" && sha256sum -c SHA256SUMS > "$work/log"); then ok; else bad "SHA256SUMS"; fi
archives=$(wc -l < "$one/SHA256SUMS")
if [ "$archives" -eq $(($# + 1)) ]; then ok; else bad "$archives archives instead of $(($# + 1))"; fi

# magic FILE - its first bytes: 4 for Mach-O, 20 for ELF, and from these the processor
magic() { od -A n -t x1 -N 20 "$1" | tr -d ' \n'; }
for target; do
    case $target in *macos) system=macos ;; *) system=linux ;; esac
    mkdir "$work/$target"
    tar -xzf "$one"/organ-suite-*-"$system-${target%%-*}.tar.gz" -C "$work/$target" --strip-components=1
    for file in bin/organ-measure bin/organ-search share/man/man1/organ-merge.1 share/man/man5/organ-manifest.5 \
        share/bash-completion/completions/organ-merge share/zsh/site-functions/_organ \
        share/fish/vendor_completions.d/organ-merge.fish share/doc/organ-suite/NEWS.md LICENSE README.md; do
        if [ -s "$work/$target/$file" ]; then ok; else bad "$target: no $file"; fi
    done
    tool=$work/$target/bin/organ-measure
    case $target:$(magic "$tool") in
    x86_64-linux*:7f454c46????????????????????????????3e00 | \
        aarch64-linux*:7f454c46????????????????????????????b700 | \
        x86_64-macos:cffaedfe07000001* | aarch64-macos:cffaedfe0c000001*) ok ;;
    *) bad "$target: organ-measure is for another system: $(magic "$tool")" ;;
    esac
    run=
    case $target in
    aarch64-linux*) run=qemu-aarch64 ;;
    x86_64-linux*) [ "$(uname -m)" = x86_64 ] || continue ;;
    *) continue ;;
    esac
    [ -z "$run" ] || command -v "$run" > /dev/null || continue
    if $run "$tool" --summary tests/data/lab/lab-verse-q4_k_m.gguf > "$work/out" && grep -q . "$work/out"; then ok
    else bad "$target: organ-measure does not work"
    fi
done
if ! command -v ruby > /dev/null || ruby -c "$one/organ-suite.rb" > /dev/null; then ok
else bad "the Homebrew formula"; fi
echo "dist: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
