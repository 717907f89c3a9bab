#!/bin/sh
# shellcheck disable=SC1091,SC2015,SC2086
# chimera.sh - scripts/chimera.mk: which files are built, when they are rebuilt, and that a
# failed step leaves nothing behind.
. "$(dirname "$0")/lib.sh"
MAKE=${MAKE:-make}
unset MAKEFLAGS MFLAGS MAKELEVEL
ln -s "$PWD" "$T/tree" # make splits paths at spaces
MK=$T/tree/scripts/chimera.mk
$MAKE --version 2> /dev/null | grep -q GNU || { check_text "no GNU make" "no GNU make" ""; finish; }
W=$T/w
mkdir "$W"
# Three small relatives and a stranger.
for seed in 1 2 3 4; do
    set -- token_embd.weight:F16:64x128 output.weight:F16:64x128 output_norm.weight:F32:64
    for i in 0 1 2 3; do
        set -- "$@" blk.$i.attn_norm.weight:F32:64 blk.$i.attn_q.weight:F16:64x64 blk.$i.attn_output.weight:F16:64x64 \
            blk.$i.ffn_norm.weight:F32:64 \
            blk.$i.ffn_gate.weight:F16:64x96 blk.$i.ffn_up.weight:F16:64x96 blk.$i.ffn_down.weight:F16:96x64
    done
    mkmodel "$W/$seed.gguf" -s $seed "$@" || bad "mkmodel"
done
mv "$W/1.gguf" "$W/verse.gguf"
mv "$W/2.gguf" "$W/stranger.gguf"
for m in base:3 code:4; do
    organ-transplant -q --base "$W/verse.gguf" --donor "$W/${m#*:}.gguf" --blend linear:0.3 \
        --output "$W/${m%:*}.gguf" || bad "a relative"
    rm "$W/${m#*:}.gguf"
done
cat > "$W/Makefile" << END
BASE       := verse.gguf
OUTPUT     := c.gguf
DONORS     := code norms
code.model := code.gguf
code.type  := organ
norms.model := base.gguf
norms.type := norm
include $MK
END

mk() { $MAKE -C "$W" --no-print-directory "$@"; }
# The tools that the last make ran, in order: "extract graft graft assemble".
ran() {
    sed -n 's:^[^ ]*/organ-\([a-z]*\) .*:\1:p' "$T/out" | tr '\n' ' ' | sed 's/ $//'
}
# made WHAT TOOLS ARGUMENT...: make succeeds and runs those tools.
made() {
    made_what=$1 made_want=$2
    shift 2
    check "$made_what" mk "$@"
    check_text "$(ran)" "$made_want" "$made_what: steps"
}
# refused TEXT WHAT ARGUMENT...: make fails, says TEXT, and leaves no output.
refused() {
    refused_text=$1 refused_what=$2
    shift 2
    check_exit 2 "$refused_what" mk OUTPUT=r.gguf "$@"
    if grep -qF -e "$refused_text" "$T/err"; then ok; else bad "$refused_what: no '$refused_text' in: $(cat \
        "$T/err")"; fi
    check_absent "$W/r.gguf" "$refused_what"
    # Of each step there is all or nothing.
    for half in "$W"/r.gguf.work/*.organs "$W"/r.gguf.work/*.gguf "$W"/.[!.]* "$W"/r.gguf.work/.[!.]*; do
        [ -e "$half" ] || continue
        case $half in
        "$W"/.* | "$W"/*/.*) bad "$refused_what: half a product: $half" ;;
        *) check "$refused_what: $half is whole" organ-transplant --base "$half" --donor "$half" \
            --output "$T/whole.gguf" --force ;;
        esac
    done
    rm -rf "$W/r.gguf.work"
}
# Touches a file until it is newer than all that was written before, as clocks of files have steps of
# milliseconds, and make rebuilds nothing for files of the same time.
changed() {
    touch "$T/tick"
    while touch "$W/$1" && [ -z "$(find "$W/$1" -newer "$T/tick")" ]; do :; done
}

# ---- built once, by hand the same ----------------------------------------------------------------
made "first make" "extract graft graft assemble"
organ-transplant -q --base "$W/verse.gguf" --donor "$W/code.gguf" --type organ --output "$T/1.gguf" &&
    organ-transplant -q --base "$T/1.gguf" --donor "$W/base.gguf" --type norm --output "$T/2.gguf"
check_same "$W/c.gguf" "$T/2.gguf" "as two transplants make it"
check_text "$(find "$W/c.gguf.work" -type d | wc -l | tr -d ' ')" 1 "no organs are left"
check_text "$(cat "$T/err")" "chimera.mk: step 1 of 4: take the base apart -> c.gguf.work/base.organs
chimera.mk: step 2 of 4: graft code -> c.gguf.work/graft-code.organs
chimera.mk: step 3 of 4: graft norms -> c.gguf.work/graft-norms.organs
chimera.mk: step 4 of 4: assemble -> c.gguf" "each step says which it is"
made "second make" ""
check_text "$(grep -v 'Nothing to be done' "$T/out")" "" "second make says"
check "make -q: nothing to do" mk -q
check "make -n" mk -n
check_text "$(grep -v 'Nothing to be done' "$T/out")" "" "make -n says"
check_exit 1 "make -q: a changed recipe" mk -q code.layers=1
made "a make after a touched Makefile, which does not matter" ""
for m in code $(more verse base); do
    changed $m.gguf
    made "$m.gguf touched" "extract graft graft assemble"
done
changed stranger.gguf
made "a model touched that is not in the recipe" ""
made "one more layer option" "extract graft graft assemble" code.layers=1-2
made "the same again" "" code.layers=1-2
made "and without" "extract graft graft assemble"
cp "$W/verse.gguf" "$W/verse2.gguf"
touch -t 200001010000 "$W/verse2.gguf"
made "another base, older than the output" "extract graft graft assemble" BASE=verse2.gguf
cp "$W/code.gguf" "$W/code2.gguf"
touch -t 200001010000 "$W/code2.gguf"
made "another donor, older than the output" "extract graft graft assemble" BASE=verse2.gguf code.model=code2.gguf
check "another place for the output" mk OUTPUT=sub.gguf WORK=some/where
if [ -f "$W/some/where/base.recipe" ]; then ok; else bad "WORK is not honoured"; fi
check_same "$W/sub.gguf" "$T/2.gguf" "with WORK elsewhere"

# ---- KEEP: only what depends on a change ---------------------------------------------------------
made "KEEP=1" "extract graft graft assemble" OUTPUT=k.gguf KEEP=1
check_same "$W/k.gguf" "$T/2.gguf" "KEEP=1"
for d in base graft-code graft-norms; do
    if [ -f "$W/k.gguf.work/$d.organs/manifest.json" ]; then ok; else bad "KEEP=1: no $d.organs"; fi
done
made "KEEP=1 again" "" OUTPUT=k.gguf KEEP=1
changed base.gguf
made "last donor touched" "graft assemble" OUTPUT=k.gguf KEEP=1
check_text "$(cut -d ' ' -f 2-5 "$T/err" | tr '\n' ' ')" "step 3 of 4: step 4 of 4: " \
    "steps that are not repeated count"
changed code.gguf
made "first donor touched" "graft graft assemble" OUTPUT=k.gguf KEEP=1
changed verse.gguf
made "base touched" "extract graft graft assemble" OUTPUT=k.gguf KEEP=1
made "last donor's classes" "graft assemble" OUTPUT=k.gguf KEEP=1 norms.type=norm,embed
made "purify at the end" "graft purify assemble" OUTPUT=k.gguf KEEP=1 PURIFY=haar
made "another strength" "purify assemble" OUTPUT=k.gguf KEEP=1 PURIFY=haar STRENGTH=0.5
made "a name" "assemble" OUTPUT=k.gguf KEEP=1 PURIFY=haar STRENGTH=0.5 NAME="it's a chimera, 50% verse"
check "its header" organ-extract "$W/k.gguf" --output "$T/k.organs"
check_text "$(sed -n 's/.*"general.name".*"value": "\(.*\)"}.*/\1/p' "$T/k.organs/manifest.json")" \
    "it's a chimera, 50% verse" "NAME"
if [ -s "$W/k.gguf.work/purify.tsv" ]; then ok; else bad "no purify.tsv"; fi
made "a dtype" "assemble" OUTPUT=k.gguf KEEP=1 PURIFY=haar STRENGTH=0.5 DTYPE='blk.*.ffn_*=q8_0,*=keep'
check_text "$(organ-extract "$W/k.gguf" --list --tensors blk.1.ffn_gate.weight |
    awk "$BY_NAME"'NR == 2 { print col("dtype") }')" Q8_0 \
    "DTYPE"
made "a name with dollars" "assemble" OUTPUT=k.gguf KEEP=1 PURIFY=haar STRENGTH=0.5 NAME='a$$b'
made "a name with dollars, again" "" OUTPUT=k.gguf KEEP=1 PURIFY=haar STRENGTH=0.5 NAME='a$$b'
made "NAME of the environment" "assemble" OUTPUT=k.gguf KEEP=1 PURIFY=haar STRENGTH=0.5
(NAME=host && export NAME && mk OUTPUT=k.gguf KEEP=1 PURIFY=haar STRENGTH=0.5) > "$T/out" 2>&1
check_text "$(ran)" "" "a NAME in the environment is not the recipe's"
made "without KEEP" "graft graft assemble" OUTPUT=k.gguf code.layers=0
check_text "$(find "$W/k.gguf.work" -name graft-code.organs)" "" "what KEEP kept goes"

# ---- any -j, the same bytes ----------------------------------------------------------------------
RICH="code.purify=haar norms.type=skeleton norms.purify=fft norms.blend=linear:0.2..0.8 PURIFY=fft STRENGTH=0.5"
made "-j1" "extract extract purify graft extract purify graft purify assemble" OUTPUT=j1.gguf -j1 $RICH
check "-j4" mk OUTPUT=j4.gguf -j4 $RICH
check_same "$W/j1.gguf" "$W/j4.gguf" "-j1 and -j4"
if cmp -s "$W/j1.gguf" "$T/2.gguf"; then bad "purify and blend change nothing"; else ok; fi
check_text "$(sed 's/.*: step \([1-9]\) of 9: .*/\1/' "$T/err" | sort | tr -d '\n')" 123456789 "-j4: the steps"
check "-j4 again" mk OUTPUT=j4.gguf -j4 $RICH
check_text "$(ran)" "" "-j4 again"
organ-extract -q "$W/code.gguf" --output "$T/code.d" && organ-purify -q "$T/code.d" --output "$T/code.p" \
    --method haar --type organ > /dev/null
check "purify by hand" organ-transplant --base "$W/verse.gguf" --donor "$T/code.p" --type organ --output "$T/pure.gguf"
check "purify a donor" mk OUTPUT=p.gguf DONORS=code code.purify=haar
check_same "$W/p.gguf" "$T/pure.gguf" "a purified donor"

# ---- directly ------------------------------------------------------------------------------------
made "DIRECT=1" "transplant transplant" OUTPUT=d.gguf DIRECT=1
check_same "$W/d.gguf" "$T/2.gguf" "DIRECT=1"
check_absent "$W/d.gguf.work/direct-code.gguf" "DIRECT=1 without KEEP"
made "DIRECT=1 again" "" OUTPUT=d.gguf DIRECT=1
changed base.gguf
made "DIRECT=1, last donor" "transplant transplant" OUTPUT=d.gguf DIRECT=1
check_text "$(cut -d ' ' -f 2-5 "$T/err" | tr '\n' ' ')" "step 1 of 2: step 2 of 2: " "DIRECT=1: the steps"
made "DIRECT=1 KEEP=1" "" OUTPUT=d.gguf DIRECT=1 KEEP=1
changed code.gguf
made "DIRECT=1 KEEP=1, first donor" "transplant transplant" OUTPUT=d.gguf DIRECT=1 KEEP=1
changed base.gguf
made "DIRECT=1 KEEP=1, last donor" "transplant" OUTPUT=d.gguf DIRECT=1 KEEP=1
made "DIRECT=1 NAME" "transplant" OUTPUT=d.gguf DIRECT=1 KEEP=1 NAME=direct
if organ-extract "$W/d.gguf" --output "$T/d.organs" && grep -q '"value": "direct"' "$T/d.organs/manifest.json"; \
    then ok; else bad "DIRECT=1 NAME"; fi
for v in code.purify=haar DTYPE='*=q8_0' $(more PURIFY=fft code.adapter=1 code.experts=1); do
    refused "needs organ directories" "DIRECT=1 $v" DIRECT=1 "$v"
done
refused "needs DONORS" "DIRECT=1 alone" DIRECT=1 DONORS=
made "no donors: re-encoded" "extract assemble" OUTPUT=q.gguf DONORS= DTYPE='*=q8_0'

# ---- blend and adapter ---------------------------------------------------------------------------
made "a task vector" "extract graft assemble" OUTPUT=t.gguf DONORS=code code.blend=task:0.5 code.ancestor=base.gguf
changed base.gguf
made "its ancestor touched" "extract graft assemble" OUTPUT=t.gguf DONORS=code code.blend=task:0.5 \
    code.ancestor=base.gguf
check "the same directly" mk OUTPUT=t2.gguf DIRECT=1 DONORS=code code.blend=task:0.5 code.ancestor=base.gguf
check_same "$W/t.gguf" "$W/t2.gguf" "a task vector, directly"
mkmodel "$T/ab.gguf" -s 3 blk.1.ffn_gate.weight.lora_a:F32:64x2 blk.1.ffn_gate.weight.lora_b:F32:2x96 &&
    organ-extract "$T/ab.gguf" --output "$T/ab" && sed -e 's/^  "metadata": \[/&\
    {"key": "general.type", "type": "str", "value": "adapter"},\
    {"key": "adapter.type", "type": "str", "value": "lora"},\
    {"key": "adapter.lora.alpha", "type": "f32", "value": 4},/' "$T/ab/manifest.json" > "$T/ab.json" &&
    mv "$T/ab.json" "$T/ab/manifest.json" && organ-assemble "$T/ab" --output "$W/lora.gguf" \
        || bad "no adapter to test with"
made "an adapter" "extract graft graft assemble" OUTPUT=l.gguf DONORS='code lora' lora.model=lora.gguf lora.adapter=1 \
    lora.scale=0.5
check "by hand" organ-graft --source "$W/code.gguf" --type organ --target "$W/verse.gguf" --output "$T/l1" &&
    check "by hand" organ-graft --adapter "$W/lora.gguf" --scale 0.5 --target "$T/l1" --output "$T/l2" &&
    check "by hand" organ-assemble "$T/l2" --output "$T/l.gguf"
check_same "$W/l.gguf" "$T/l.gguf" "an adapter"
refused "--adapter takes only" "an adapter with a selection" DONORS=lora lora.model=lora.gguf lora.adapter=1 \
    lora.type=organ

# ---- split models, organ directories, models made by rules ---------------------------------------
organ-extract -q "$W/verse.gguf" --output "$W/verse.organs" && organ-assemble -q "$W/verse.organs" \
    --output "$W/split.gguf" --shards 3
made "a split base" "extract graft graft assemble" OUTPUT=s.gguf BASE=split-00001-of-00003.gguf
made "again" "" OUTPUT=s.gguf BASE=split-00001-of-00003.gguf
changed split-00003-of-00003.gguf
made "its last shard touched" "extract graft graft assemble" OUTPUT=s.gguf BASE=split-00001-of-00003.gguf
made "a directory as base" "extract graft graft assemble" OUTPUT=o.gguf BASE=verse.organs
check_same "$W/o.gguf" "$T/2.gguf" "a directory as base"
changed verse.organs/manifest.json
made "its manifest touched" "extract graft graft assemble" OUTPUT=o.gguf BASE=verse.organs
printf '%s\n' "include Makefile" "made.gguf: code.gguf" "	cp code.gguf made.gguf" > "$W/rule.mk"
made "a donor that a rule makes" "extract graft graft assemble" -f rule.mk OUTPUT=m.gguf code.model=made.gguf
check_same "$W/m.gguf" "$T/2.gguf" "a donor that a rule makes"

# ---- refused, and nothing left -------------------------------------------------------------------
mkmodel "$W/dims.gguf" blk.1.ffn_gate.weight:F32:256x256
for direct in '' $(more DIRECT=1); do
    refused "dims" "a donor of other dims $direct" code.model=dims.gguf $direct
    refused "dims" "the second donor of other dims $direct" norms.model=dims.gguf norms.type=organ $direct
    refused "none.gguf" "no such donor $direct" code.model=none.gguf $direct
    refused "none.gguf" "no such base $direct" BASE=none.gguf $direct
    refused "Error 1" "a stranger, STRICT $direct" code.model=stranger.gguf STRICT=1 $direct
    refused "strangers" "a stranger, STRICT, says so $direct" code.model=stranger.gguf STRICT=1 $direct -j4
    refused "README" "a base that is not a model $direct" BASE=README $direct
    refused "*** organ-graft: --match perhaps" "a wrong option $direct" code.match=perhaps $direct
    # The second donor: nothing ran before.
    refused "unknown word 'fnn'" "a wrong type $direct" norms.type=fnn $direct WORK=unbegun
    check_text "$(ran)" "" "a wrong type $direct: no step"
    check_absent "$W/unbegun" "a wrong type $direct"
done
check "a stranger, not STRICT, make -s" mk -s OUTPUT=x.gguf code.model=stranger.gguf
check_text "$(cat "$T/out" "$T/err")" "" "make -s is silent"
check "STRICT=1 among relatives" mk OUTPUT=x.gguf STRICT=1
refused "*** organ-purify: --method wash" "no such method" PURIFY=wash
refused "*** organ-purify: --strength much" "no such strength" code.purify=haar code.strength=much
refused "*** organ-assemble: 'q99' is not a tensor type" "no such dtype" DTYPE='*=q99'
check "a wrong value does not keep from cleaning" mk clean OUTPUT=unbuilt.gguf DTYPE='*=q99'
# Names that mean something to a shell are names; those that mean something to make are refused.
for name in 'a`id>pwned`.gguf' "a'b\"c.gguf" 'a>pwned.gguf' $(more 'a(1).gguf' 'a,b.gguf' 'a!{}.gguf'); do
    cp "$W/code.gguf" "$W/$name"
    for direct in DIRECT= $(more DIRECT=1); do
        check "a donor $name $direct" mk OUTPUT=r.gguf "code.model=$name" $direct
        check_same "$W/r.gguf" "$T/2.gguf" "a donor $name $direct"
        rm -rf "$W/r.gguf" "$W/r.gguf.work"
    done
    check "an output $name" mk OUTPUT="$name.out" DIRECT=1
    check_same "$W/$name.out" "$T/2.gguf" "an output $name"
    check "clean $name" mk OUTPUT="$name.out" clean
    check_absent "$W/$name.out" "clean $name"
    rm -f "$W/$name"
done
check_absent "$W/pwned" "no name runs code"
check_absent "$W/pwned.gguf" "no name is a redirection"
set -f
names='a%b a(b) a$$b a*b'
if exhaustive; then names="$names a#b a;b a:b a|b a\\b ~a a=b a?b a[b"; fi
for name in $names; do
    refused "make cannot use a path" "a donor $name" "code.model=$name"
    [ "$name" != 'a%b' ] && ! exhaustive || refused "make cannot use a path" "a base $name" "BASE=$name"
done
set +f

# A misspelt variable is refused, and the nearest known one is named.
refused "unknown variable code.layres; did you mean code.layers?" "code.layres" code.layres=1
refused "unknown variable code.types; did you mean code.type?" "code.types" code.types=organ
refused "unknown variable DTPYE; did you mean DTYPE?" "DTPYE" DTPYE=q8_0
printf 'STRCT := 1\nMINE := 2\n' | cat - "$W/Makefile" > "$W/Makefile.typo"
refused "unknown variable STRCT; did you mean STRICT?" "STRCT in a Makefile" -f Makefile.typo
check_exit 2 "chimera.mk alone: a donor that DONORS lacks" $MAKE -f "$MK" BASE="$W/verse.gguf" OUTPUT="$T/alone.gguf" \
    DONORS=code code.model="$W/code.gguf" cod.type=organ
if grep -q 'unknown variable cod.type; did you mean code.type?' "$T/err"; then ok; else \
    bad "the donor is named: $(cat "$T/err")"; fi
check "variables of an including Makefile" mk OUTPUT=r.gguf MY_OWN=1
rm -rf "$W/r.gguf" "$W/r.gguf.work"

refused "x y.gguf" "a path with a space" BASE='x y.gguf'
refused "x y.gguf" "a donor's path with a space" code.model='x y.gguf'
refused "BASE" "no base" BASE=
refused "norms.model" "a donor without a model" norms.model=
refused "twice" "a donor twice" DONORS='code code'
refused "without a slash" "a path for a donor's name" DONORS='./code' ./code.model=code.gguf
cp "$W/verse.gguf" "$T/verse.gguf"
check_exit 2 "the base as output" mk OUTPUT=verse.gguf
check_same "$W/verse.gguf" "$T/verse.gguf" "the base as output"
# A step that fails late keeps what was whole, and a repaired recipe goes on from there.
mkdir "$T/failing"
for tool in extract graft; do ln -s "$BIN/organ-$tool" "$T/failing/organ-$tool"; done
printf '#!/bin/sh\nexit 4\n' > "$T/failing/organ-assemble"
chmod +x "$T/failing/organ-assemble"
check_exit 2 "the last step fails" mk OUTPUT=g.gguf BIN="$T/failing"
made "and is repaired" "assemble" OUTPUT=g.gguf
check_same "$W/g.gguf" "$T/2.gguf" "repaired"

# Killed when a step's directory is just there: make must not take its manifest for half a file.
mkdir "$T/bin"
for t in extract assemble; do ln -s "$BIN/organ-$t" "$T/bin/organ-$t"; done
cat > "$T/bin/organ-graft" << END
#!/bin/sh
"$BIN/organ-graft" "\$@" || exit
echo \$\$ > "$T/child"
while [ ! -s "$T/pid" ]; do sleep 0.1; done
trap 'exit 143' TERM
kill -TERM "\$(cat "$T/pid")"
n=0
while [ \$n -lt 600 ]; do sleep 0.1; n=\$((n + 1)); done
END
chmod +x "$T/bin/organ-graft"
$MAKE -C "$W" BIN="$T/bin" OUTPUT=i.gguf > "$T/out" 2>&1 &
echo $! > "$T/pid"
wait $! 2> /dev/null
check_absent "$W/i.gguf" "make was killed"
if kill -0 "$(cat "$T/child")" 2> /dev/null; then bad "the tool of the step still runs"; else ok; fi
if grep -q '^chimera.mk: stopped in step 2 of 4; run the same command to go on' "$T/out"; then ok; else \
    bad "no line on how to go on: $(cat "$T/out")"; fi
made "after make was killed" "graft assemble" OUTPUT=i.gguf
check_same "$W/i.gguf" "$T/2.gguf" "after make was killed"

# ---- check, clean --------------------------------------------------------------------------------
check "make check" mk OUTPUT=c2.gguf check
check_text "$(grep -c '^#' "$T/out")" 2 "make check: a table a donor"
check_absent "$W/c2.gguf" "make check"
check_exit 2 "make check with a stranger" mk check code.model=stranger.gguf
check_text "$(grep -c '^#' "$T/out")" 2 "make check goes on"
check_exit 2 "make check with other dims" mk check code.model=dims.gguf
check_exit 2 "make check without the donor" mk check norms.model=none.gguf
check "make -n" mk -n OUTPUT=c2.gguf
check_absent "$W/c2.gguf" "make -n"
check "make clean" mk OUTPUT=k.gguf clean
check_absent "$W/k.gguf" "make clean"
check_absent "$W/k.gguf.work" "make clean"
check "make clean with a missing donor" mk OUTPUT=k.gguf code.model=none.gguf clean

# ---- the page's own recipe, as it is pasted: blanks before a comment belong to make's values --------
rm -rf "$W/c.gguf" "$W/c.gguf.work"
cp "$LAB/lab-lora-code.gguf" "$W/polish-lora.gguf"
for m in code verse; do cp "$LAB/lab-$m-q4_k_m.gguf" "$W/$m.gguf"; done
sed -n '/^    BASE   :=/,/^    include /p' docs/chimera.md | sed "s/^    //; s|^include .*|include $MK|" \
    > "$W/Makefile"
made "the recipe of docs/chimera.md" "extract graft graft assemble"
check "its chimera" organ-extract --list "$W/chimera.gguf"
sed 's/^BASE .*/& # a comment/; s/^OUTPUT .*/& # a comment/' "$W/Makefile" > "$W/m" && mv "$W/m" "$W/Makefile"
made "comments behind BASE and OUTPUT: nothing new" ""
finish
