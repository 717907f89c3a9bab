#!/bin/sh
# shellcheck disable=SC1091,SC2086,SC2010,SC2046
# patch.sh - organ-compare --patch and organ-transplant: the result is B byte for byte; another
# base, a damaged patch and a patch that contradicts itself are refused, and nothing is left.
. "$(dirname "$0")/lib.sh"
VERSE=$LAB/lab-verse-q4_k_m.gguf
CODE=$LAB/lab-code-q4_k_m.gguf
G=$D/gguf

apply() { # BASE PATCH
    organ-transplant --base "$1" --donor "$2" --output "$T/c.gguf" --force
}
pair() { # A B
    check "$1 to $2: a patch" organ-compare "$1" "$2" --patch "$T/p.gguf" --force
    check "$1 to $2: applied" apply "$1" "$T/p.gguf"
    check_same "$T/c.gguf" "$2" "$1 to $2"
}

# Every odd file from every other kind of file.
last=$G/tensors-only.gguf
for f in $G/*.gguf; do
    case $f in */big-endian* | */v1-by* | */x-0*) continue ;; esac
    pair "$f" "$f"
    pair "$last" "$f"
    for odd in padding-nonzero trailing-bytes v2-align-64 header-only kv-odd-keys; do pair "$G/$odd.gguf" "$f"; done
    last=$f
done
pair $VERSE $CODE
pair $VERSE $(verse_q8)

# Small where the models are alike.
check "one key" organ-keys $VERSE --set general.name=str:other --output "$T/k.gguf"
pair $VERSE "$T/k.gguf"
if [ "$(wc -c < "$T/p.gguf")" -lt 1000 ]; then ok; else bad "a patch of one key has $(wc -c < "$T/p.gguf") bytes"; fi
check_text "$(organ-keys "$T/p.gguf" | cells key | sed 1d | tr '\n' ' ')" \
    "patch.version patch.base.sha256 patch.result.sha256 patch.delete.keys patch.delete.tensors general.name " \
    "its keys"
if have sha256sum "hashes compared with those of sha256sum"; then
    check_text "$(organ-keys "$T/p.gguf" --get patch.base.sha256)" "$(sha256sum < $VERSE | cut -d ' ' -f 1)" \
        "the base's hash"
    check_text "$(organ-keys "$T/p.gguf" --get patch.result.sha256)" "$(sha256sum < "$T/k.gguf" | cut -d ' ' -f 1)" \
        "the result's hash"
fi

# Order, deletions, alignment, shapes, data.
mkmodel "$T/m1.gguf" -k a=1 -k b=2 -k c=3 a:F32:4 b:F16:8x2 c:Q8_0:32x3 e:F32:1
mkmodel "$T/m2.gguf" -a 64 -s 5 -k c=3 -k a=2 -k d=4 c:Q8_0:32x3 d:F32:7 a:F32:4x1 b:F16:8x2
mkmodel "$T/m3.gguf" -p 170 -k a=1 -k b=2 -k c=3 e:F32:1 c:Q8_0:32x3 b:F16:8x2 a:F32:4
mkmodel "$T/m4.gguf"
for a in 1 2 3 4; do for b in 1 2 3 4; do pair "$T/m$a.gguf" "$T/m$b.gguf"; done; done
organ-compare "$T/m1.gguf" "$T/m3.gguf" --patch "$T/p.gguf" --force
check_text "$(organ-keys "$T/p.gguf" --get patch.order.tensors | tr '\n' ' ')" "e c b a " "an order of tensors"
organ-compare "$T/m1.gguf" "$T/m2.gguf" --patch "$T/p.gguf" --force
check_text "$(organ-keys "$T/p.gguf" --get patch.delete.tensors) $(organ-keys "$T/p.gguf" --get patch.delete.keys)" \
    "e b" "deletions"
organ-keys $VERSE --delete general.name --set general.name=lab-verse --output "$T/moved.gguf"
pair $VERSE "$T/moved.gguf"
{ cat $VERSE; head -c 3000 README.md; } > "$T/more.gguf"
pair $VERSE "$T/more.gguf"
pair "$T/more.gguf" $VERSE
organ-extract -q $G/x-00001-of-00003.gguf --output "$T/xd"
organ-assemble -q "$T/xd" --output "$T/x.gguf"
pair "$T/x.gguf" "$T/m1.gguf"

# Pipes, threads.
organ-compare $VERSE "$T/more.gguf" --patch "$T/p.gguf" --force
for how in "--base $VERSE --donor - < $T/p.gguf" "--base - --donor $T/p.gguf < $VERSE"; do
    check "a pipe: $how" sh -c "organ-transplant --output $T/c.gguf --force $how"
    check_same "$T/c.gguf" "$T/more.gguf" "a pipe: $how"
done
organ-compare $VERSE $CODE --patch "$T/p1.gguf" -j 1
organ-compare $VERSE $CODE --patch "$T/p7.gguf" -j 7
check_same "$T/p1.gguf" "$T/p7.gguf" "any number of threads"

# Refused: another base, other kinds of models, other options.
rm -f "$T/none"
check_error 1 "the patch is for another base" "another base" organ-transplant --base $CODE --donor "$T/p1.gguf" \
    --output "$T/none"
check_error 1 "the patch is for another base" "the result as the base" organ-transplant --base "$T/k.gguf" \
    --donor "$T/p1.gguf" --output "$T/none"
check_error 2 "one GGUF file" "shards" organ-compare $G/x-00001-of-00003.gguf $VERSE --patch "$T/none"
check_error 2 "one GGUF file" "shards as B" organ-compare $VERSE $G/x-00001-of-00003.gguf --patch "$T/none"
check_error 2 "one GGUF file" "a directory" organ-compare $VERSE "$T/xd" --patch "$T/none"
check_error 2 "one GGUF file" "a pipe" sh -c "organ-compare $VERSE - --patch $T/none < $CODE"
check_error 2 "one GGUF file" "shards as the base" organ-transplant --base $G/x-00001-of-00003.gguf \
    --donor "$T/p1.gguf" --output "$T/none"
check_error 2 "cannot be made from another patch" "a patch of a patch" organ-compare $VERSE "$T/p1.gguf" \
    --patch "$T/none"
check_error 2 "already exists" "an existing patch" organ-compare $VERSE $CODE --patch "$T/p1.gguf"
check_same "$T/p1.gguf" "$T/p7.gguf" "an existing patch"
for with in --check --in-place "--type norm" "--map 0=0" "--match exact" --add "--set-kv a=1" "--copy-kv a" \
    --mtp "--blend linear:1"; do
    case $with in --check | --in-place) out= ;; *) out="--output $T/none" ;; esac
    check_error 2 "applied as a whole" "a patch $with" organ-transplant --base $VERSE --donor "$T/p1.gguf" $with $out
done
check_error 2 "verified before" "to stdout" organ-transplant --base $VERSE --donor "$T/p1.gguf" --output -
for with in --keys --summary --lineage "--type norm" --json "--map 0=0"; do
    check_error 2 "--patch" "compare --patch $with" organ-compare $VERSE $CODE --patch "$T/none" $with
done
check_error 2 "--force needs --patch" "nothing to force" organ-compare $VERSE $CODE --force

# Patches that were tampered with.
organ-compare "$T/m1.gguf" "$T/m2.gguf" --patch "$T/good.gguf"
tampered() { # STATUS TEXT EDIT...
    tampered_status=$1 tampered_text=$2
    shift 2
    organ-keys "$T/good.gguf" "$@" --output "$T/bad.gguf" --force -q || bad "no edit: $*"
    check_error $tampered_status "$tampered_text" "tampered: $*" organ-transplant --base "$T/m1.gguf" \
        --donor "$T/bad.gguf" --output "$T/none"
}
tampered 3 "version 2" --set patch.version=u32:2
tampered 3 "patch.version" --set patch.version=u64:1
tampered 3 "patch.version" --delete patch.version
tampered 3 "unknown key patch.extra" --set patch.extra=u32:2
tampered 3 "must be a sha256" --set patch.base.sha256=str:abc
tampered 3 "must be a sha256" --delete patch.result.sha256
tampered 3 "must be a sha256" --set patch.result.sha256=str:$(printf '%064d' 0 | tr 0 F)
tampered 3 "does not match the expected sha256" --set patch.result.sha256=str:$(printf '%064d' 0)
tampered 1 "another base" --set patch.base.sha256=str:$(printf '%064d' 0)
tampered 3 "array of the right type" --set patch.delete.keys=u32[]:1
tampered 3 "array of the right type" --set patch.delete.tensors=str:e
for keys in b,zz b,b; do # a key that is not there, and a key twice: the result is the same
    organ-keys "$T/good.gguf" --set "patch.delete.keys=str[]:$keys" --output "$T/bad.gguf" --force -q
    check "deleted: $keys" organ-transplant --base "$T/m1.gguf" --donor "$T/bad.gguf" --output "$T/out.gguf" --force
    check_same "$T/out.gguf" "$T/m2.gguf" "deleted: $keys"
done
tampered 3 "orders other" --set patch.delete.keys=str[]:b,a
tampered 3 "orders other" --set patch.delete.tensors=str[]:e,a
tampered 3 "does not match the expected sha256" --set patch.delete.tensors=str[]: \
    --set patch.order.tensors=str[]:c,d,a,b,e
tampered 3 "orders other" --set patch.order.tensors=str[]:c,d,a
tampered 3 "orders other" --set patch.order.tensors=str[]:c,d,a,a
tampered 3 "orders other" --set patch.order.tensors=str[]:c,d,a,e
keys=$(organ-keys "$T/m2.gguf" | cells key | sed 1d | sed "\$s/.*/zz/" | tr "\n" , | sed "s/,\$//")
tampered 3 "orders other" --set "patch.order.keys=str[]:$keys"
tampered 3 "does not match the expected sha256" --set patch.order.tensors=str[]:d,c,a,b
tampered 3 "padding.sizes must be those" --set patch.padding.after=u64[]:0
tampered 3 "padding.sizes must be those" --set patch.padding.after=u64[]:0 --set patch.padding.sizes=u64[]:1,2 \
    --set patch.padding.bytes=u8[]:1
tampered 3 "padding.sizes must be those" --set patch.padding.after=u64[]:0 --set patch.padding.sizes=u64[]:2 \
    --set patch.padding.bytes=u8[]:1
tampered 3 "padding.sizes must be those" --set patch.padding.after=u64[]:0 \
    --set patch.padding.sizes=u64[]:18446744073709551615 --set patch.padding.bytes=u8[]:1
tampered 3 "padding.sizes must be those" --set patch.padding.after=u64[]:0 --set patch.padding.sizes=u64[]:1 \
    --set patch.padding.bytes=u8[]:1,2
tampered 3 "padding.sizes must be those" --set patch.padding.after=u64[]:5 --set patch.padding.sizes=u64[]:1 \
    --set patch.padding.bytes=u8[]:1
tampered 3 "does not match the expected sha256" --set d=u32:5
n=$(wc -c < "$T/good.gguf")
i=0
while [ $i -lt "$n" ]; do # any byte changed, any length
    { head -c $i "$T/good.gguf"; printf '\351'; tail -c +$((i + 2)) "$T/good.gguf"; } > "$T/bad.gguf"
    if ! cmp -s "$T/bad.gguf" "$T/good.gguf" && organ-transplant --base "$T/m1.gguf" --donor "$T/bad.gguf" \
        --output "$T/out.gguf" --force 2> "$T/err"; then
        check_same "$T/out.gguf" "$T/m2.gguf" "byte $i changed"
    else ok
    fi
    head -c $i "$T/good.gguf" > "$T/bad.gguf"
    if organ-transplant --base "$T/m1.gguf" --donor "$T/bad.gguf" --output "$T/out.gguf" --force 2> "$T/err"; then
        check_same "$T/out.gguf" "$T/m2.gguf" "cut to $i bytes" # only padding is missing
    else check_text $? 3 "cut to $i bytes"
    fi
    i=$((i + 37))
done
check_absent "$T/none" "after refused patches"
check_text "$(cd "$T" && ls -a | grep -c tmp)" 0 "nothing is left behind"
finish
