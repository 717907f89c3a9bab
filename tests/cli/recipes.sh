#!/bin/sh
# shellcheck disable=SC1091,SC2016,SC2086
# recipes.sh - each of scripts/recipes runs unchanged on the bundled models, on other models
# that are named, and from the place where it is installed.
. "$(dirname "$0")/lib.sh"
MAKE=${MAKE:-make}
unset MAKEFLAGS MFLAGS MAKELEVEL LAB # which lib.sh exports, and lab.mk would take
ln -s "$PWD" "$T/tree" # make splits paths at spaces
TOP=$T/tree
LABS=$TOP/$D/lab
$MAKE --version 2> /dev/null | grep -q GNU || { check_text "no GNU make" "no GNU make" ""; finish; }

# recipe NAME ARGUMENT...: in $T/$where
recipe() {
    recipe_name=$1
    shift
    $MAKE -C "$T/$where" -f "$from/$recipe_name.mk" "$@"
}
# regmean-merge needs organ-probe, and fewer-experts a mixture: sections of their own.
names() { for f in "$TOP"/scripts/recipes/*.mk; do basename "$f" .mk; done |
    grep -vx -e lab -e regmean-merge -e fewer-experts; }
same() { check_same "$T/$where/$1.gguf" "$2" "$1"; }

# ---- unchanged -----------------------------------------------------------------------------------
where=default from=$TOP/scripts/recipes
mkdir "$T/$where"
check_text "$(names | wc -l | tr -d ' ')" 12 "recipes"
# The two that take long get models of one block, if not every case is tested.
SMALL=$LABS
if ! exhaustive; then
    SMALL=$T/lab
    mkdir "$SMALL" && cp "$LABS"/text-*.txt "$SMALL"
    for m in base verse code; do
        organ-stack -q --drop 1-3 "$LABS/lab-$m-q4_k_m.gguf" -o "$SMALL/lab-$m-q4_k_m.gguf" || bad "small models"
    done
fi
for r in $(names); do
    set --
    [ $r != iso-merge ] || exhaustive || set -- LAB="$SMALL"
    check "$r" recipe $r BIN="$BIN" "$@"
    check "$r: loads" organ-extract --list "$T/$where/$r.gguf"
    check "$r: again" recipe $r BIN="$BIN" "$@"
    if grep -q organ- "$T/out"; then bad "$r: the second make does something"; else ok; fi
    check_text "$(grep -c '^# Lesson: ' "$from/$r.mk")" 1 "$r has a lesson"
done
V=$LABS/lab-verse-q4_k_m.gguf C=$LABS/lab-code-q4_k_m.gguf
organ-transplant --base "$V" --donor "$C" --type skeleton --output "$T/skeleton.gguf"
organ-transplant --base "$V" --donor "$C" --type organ --output "$T/organ.gguf"
organ-transplant --base "$V" --donor "$C" --type organ --layers 1-2 --output "$T/range.gguf"
organ-transplant --base "$V" --donor "$C" --type organ --blend linear:0.2..0.8 --output "$T/blend.gguf"
same build-935-v1 "$T/skeleton.gguf"
same build-935-v2 "$T/organ.gguf"
same quick-chimera-v1 "$T/default/build-935-v2.gguf"
same direct-transplant "$T/organ.gguf"
same layer-range-graft "$T/range.gguf"
same quick-chimera-v2 "$T/blend.gguf"
B0=$LABS/lab-base-q4_k_m.gguf
organ-merge -q --method ties,density=0.5 --base "$B0" --model "$V" --model "$C" --output "$T/ties.gguf"
V0=$SMALL/lab-verse-q4_k_m.gguf C0=$SMALL/lab-code-q4_k_m.gguf
organ-merge -q --method iso,t=0.6 --base "$SMALL/lab-base-q4_k_m.gguf" --model "$V0" --model "$C0" \
    --output "$T/iso.gguf"
organ-stack -q "$V" 0-2 "$C" 2-3 --output "$T/franken.gguf"
for r in ties iso; do
    organ-compare "$T/default/$r-merge.gguf" "$T/$r.gguf" | awk -F "$TAB" \
        "$BY_NAME"'NR > 1 && col("name") != "(keys)" && col("status") != "identical"' > "$T/diff"
    check_text "$(cat "$T/diff")" "" "$r-merge"
done
same frankenmerge "$T/franken.gguf"
for r in assemble-935 build-935-v3; do
    if cmp -s "$T/default/$r.gguf" "$T/organ.gguf"; then bad "$r is as build-935-v2"; else ok; fi
done
# v3: what moved is Q8_0, the header says what most of the tensors are, the rest is as in v2.
file_type() { # MODEL
    rm -rf "$T/ft"
    organ-extract "$1" --type norm --output "$T/ft" && sed -n 's/.*"general.file_type".*"value": \([0-9]*\)}.*/\1/p' \
        "$T/ft/manifest.json"
}
organ-extract --list "$T/default/build-935-v3.gguf" |
    awk -F "$TAB" "$BY_NAME"'NR > 1 && col("dtype") == "Q8_0" { print col("class") }' | sort \
    -u > "$T/types"
check_text "$(cat "$T/types")" organ "build-935-v3: what became Q8_0"
check "build-935-v3: extract" organ-extract "$T/default/build-935-v3.gguf" --output "$T/v3"
check_text "$(file_type "$T/default/build-935-v3.gguf")" 15 "build-935-v3: file_type, mostly Q4_K"
check "build-935-v3, whole blocks" recipe build-935-v3 BIN="$BIN" donor.type=organ,skeleton OUTPUT=blocks.gguf
check_text "$(file_type "$T/default/blocks.gguf")" 7 "build-935-v3: file_type, mostly Q8_0"
check_text "$(find "$T/default" -name '*q8_0.gguf')" "" "build-935-v3: the re-encoded donor goes"
check "build-935-v3: extract v2" organ-extract "$T/default/build-935-v2.gguf" --output "$T/v2"
check_same_dir "$T/v3/skeleton" "$T/v2/skeleton" "build-935-v3: attention as in v2"

# ---- two rounds of samples, by an organ-probe that writes one matrix of them ------------------------
cat > "$T/probe" << 'END'
#!/bin/sh
echo "$*" >> "$HERE/probe.calls"
for a; do
    out=$next next=$a
    [ "$out" != --activations ] || exec mkmodel "$next" blk.0.attn_q.weight.sample:F16:256x8
done
exit 2
END
chmod +x "$T/probe"
export HERE="$T"
echo 'organ-keys "$1" --get llama.expert_count | awk "{ print 10 / \$1 }"' > "$T/few"
rounds() { recipe regmean-merge BIN="$BIN" LAB="$SMALL" PROBE="$T/probe" THREADS=1 "$@"; }
check "regmean-merge" rounds
check_text "$(awk '{ sub(".*/", "", $4); sub(".*/", "", $6); sub(".*/", "", $10);
    print $3, $4, $6, $8, $10 }' "$T/probe.calls")" \
    "1 lab-verse-q4_k_m.gguf text-verse.txt 4000 verse.1.gguf
1 lab-code-q4_k_m.gguf text-code.txt 4000 donor.1.gguf
1 first.gguf text-verse.txt 4000 verse.2.gguf
1 first.gguf text-code.txt 4000 donor.2.gguf" "samples of the models, and then of their merge"
check "regmean-merge: again" rounds
check_text "$(($(wc -l < "$T/probe.calls")))" 4 "samples are not made again"
check "regmean-merge: a knob" rounds mix=0.4
check_text "$(($(wc -l < "$T/probe.calls")))" 4 "samples do not depend on a knob"
S=$T/$where/regmean-merge.gguf.samples
organ-merge -q --no-hash --base "$SMALL/lab-base-q4_k_m.gguf" --model "$V0,activations=$S/verse.2.gguf,weight=1" \
    --model "$C0,activations=$S/donor.2.gguf,weight=1" --output "$T/regmean.gguf" --method \
    'regmean-iso,ridge=0.003,t=0.5..1.1,share=0.4,t:token_embd=0.5,t:output=0.3,share:embed=0.7,t:norm=2'
same regmean-merge "$T/regmean.gguf"
check_exit 2 "regmean-merge without organ-probe" recipe regmean-merge BIN="$BIN" \
    PROBE='echo no organ-probe here >&2; false' OUTPUT=none.gguf
if grep -q "no organ-probe here" "$T/err"; then ok; else bad "without organ-probe: $(cat "$T/err")"; fi
check_absent "$T/$where/none.gguf" "regmean-merge without organ-probe"
check_text "$(grep -c '^# Lesson: ' "$from/regmean-merge.mk")" 1 "regmean-merge has a lesson"

# ---- a share of the experts' weights, of which a search chooses the split -------------------------------
if have mkmodel; then
    mkmodel "$T/moe.gguf" -k llama.block_count=1 -k llama.expert_count=4 -k llama.expert_used_count=2 \
        -k llama.feed_forward_length=8 token_embd.weight:F32:16x4 blk.0.ffn_gate_inp.weight:F32:16x4 \
        blk.0.ffn_gate_exps.weight:F16:16x8x4 blk.0.ffn_up_exps.weight:F16:16x8x4 blk.0.ffn_down_exps.weight:F32:8x16x4
    imatrix "$T/moe.im.gguf" blk.0.ffn_down_exps.weight:x8:2,4,1,64:10,30,10,20
    mkmodel "$T/moe.act.gguf" blk.0.ffn_down_exps.weight.sample:F32:8x40x4
    fewer() { recipe fewer-experts BIN="$BIN" BASE="$T/moe.gguf" IMATRIX="$T/moe.im.gguf" OUTPUT=fewer.gguf "$@"; }
    check "fewer-experts" fewer
    organ-assemble -q "$T/moe.gguf" --imatrix "$T/moe.im.gguf" --keep-experts 3 \
        --by importance --keep-units 5 -o "$T/3x5.gguf"
    same fewer "$T/3x5.gguf"
    check "fewer-experts with samples" fewer -B percent=50 SHARE=25% ACTIVATIONS="$T/moe.act.gguf"
    organ-assemble -q "$T/moe.gguf" --imatrix "$T/moe.im.gguf" --keep-experts 2 --by importance --keep-units 4 \
        --refit "$T/moe.act.gguf" -o "$T/2x4.gguf"
    same fewer "$T/2x4.gguf"
    check_exit 2 "fewer-experts without a matrix" recipe fewer-experts BIN="$BIN" BASE="$T/moe.gguf" OUTPUT=none.gguf
    if grep -q "IMATRIX=" "$T/err"; then ok; else bad "fewer-experts without a matrix: $(cat "$T/err")"; fi
    # 2 of 8 and 3 of 5 units are worse than 4 of 4 for this engine.
    echo text > "$T/tune.txt"
    ORGAN_BIN=$BIN check "the split is searched" sh "$TOP/scripts/organ-search" "$from/fewer-experts.mk" \
        --output "$T/found.mk" --text "$T/tune.txt" --engine 'sh "$HERE/few"' BASE="$T/moe.gguf" \
        IMATRIX="$T/moe.im.gguf"
    check "the recipe that is found" $MAKE -s -f "$T/found.mk" BIN="$BIN" BASE="$T/moe.gguf" IMATRIX="$T/moe.im.gguf" \
        OUTPUT="$T/found.gguf"
    check_text "$(organ-keys "$T/found.gguf" --get llama.expert_count) $(organ-keys "$T/found.gguf" \
        --get llama.feed_forward_length)" \
        "4 4" "the split that is found"
fi
check_text "$(grep -c '^# Lesson: ' "$from/fewer-experts.mk")" 1 "fewer-experts has a lesson"

# ---- on models that are named --------------------------------------------------------------------
where=named
mkdir "$T/$where"
cp "$LABS/lab-base-q4_k_m.gguf" "$T/named/a.gguf"
cp "$V" "$T/named/b.gguf"
some='build-935-v2 build-935-v3 quick-chimera-v1 direct-transplant frankenmerge'
if exhaustive; then some=$(names); fi
for r in $some; do
    check "$r, named" recipe $r BIN="$BIN" BASE=a.gguf DONOR=b.gguf OUTPUT=$r-named.gguf
    check "$r, named: loads" organ-extract --list "$T/named/$r-named.gguf"
    check_absent "$T/named/$r.gguf" "$r, named"
done
organ-transplant --base "$T/named/a.gguf" --donor "$T/named/b.gguf" --type organ --output "$T/named-organ.gguf"
for r in build-935-v2 build-935-v3 quick-chimera-v1 direct-transplant; do
    check_same "$T/named/$r-named.gguf" "$T/named-organ.gguf" "$r, named"
done
check "layer-range-graft LAYERS" recipe layer-range-graft BIN="$BIN" LAYERS=0,3 OUTPUT=l.gguf
organ-transplant --base "$V" --donor "$C" --type organ --layers 0,3 --output "$T/03.gguf"
same l "$T/03.gguf"
check "layer-range-graft MAP" recipe layer-range-graft BIN="$BIN" MAP=1-2=2-3 OUTPUT=m.gguf
organ-transplant --base "$V" --donor "$C" --type organ --map 1-2=2-3 --output "$T/map.gguf"
same m "$T/map.gguf"
check "direct-transplant TYPE LAYERS" recipe direct-transplant BIN="$BIN" TYPE=skeleton,norm LAYERS=1 OUTPUT=d.gguf
organ-transplant --base "$V" --donor "$C" --type skeleton,norm --layers 1 --output "$T/d.gguf"
same d "$T/d.gguf"
check "check" recipe build-935-v2 BIN="$BIN" check
check_exit 2 "check of a stranger" recipe build-935-v2 BIN="$BIN" DONOR="$LABS/lab-stranger-q4_k_m.gguf" check
check_exit 2 "STRICT=1" recipe assemble-935 BIN="$BIN" DONOR="$LABS/lab-stranger-q4_k_m.gguf" STRICT=1 OUTPUT=s.gguf
check_absent "$T/named/s.gguf" "STRICT=1"

# ---- from the build tree's own tools, and installed ----------------------------------------------
# make splits paths at spaces, so from here it is by a path that has none.
check "install" $MAKE B="$B" DESTDIR="$T/root" PREFIX=/usr/local install
where=installed from=../root/usr/local/share/organ-suite/scripts/recipes
mkdir "$T/$where"
BUILT=$BIN
unset BIN
some='build-935-v2 quick-chimera-v1 layer-range-graft'
if exhaustive; then some=$(names); fi
for r in $some; do
    check "$r, installed" recipe $r BASE="$V" DONOR="$C"
done
for r in build-935-v2 quick-chimera-v1; do same $r "$T/organ.gguf"; done
recipe build-935-v2 BASE="$V" DONOR="$C" OUTPUT=x.gguf > "$T/out" 2>&1
if grep -q "root/usr/local/.*bin/organ-graft" "$T/out"; then ok; else bad "the installed tools are not used"; fi
check_exit 2 "installed, no models named" recipe build-935-v2 OUTPUT=y.gguf
if grep -q "not installed.*BASE= and DONOR=" "$T/err"; then ok; else bad "installed: $(cat "$T/err")"; fi
check_absent "$T/installed/y.gguf" "installed, no models named"

# ---- with a space on the way ---------------------------------------------------------------------
where='a space'
mkdir "$T/$where" "$T/$where/here"
cp -r "$T/root/usr/local" "$T/$where/here/"
cp "$V" "$T/$where/v.gguf"
cp "$C" "$T/$where/c.gguf"
from=here/local/share/organ-suite/scripts/recipes
check "a tree in a folder with a space" recipe build-935-v3 BASE=v.gguf DONOR=c.gguf
check "tools in a folder with a space" recipe build-935-v2 BASE=v.gguf DONOR=c.gguf BIN="$T/$where/here/local/bin"
same build-935-v2 "$T/organ.gguf"
from=$T/$where/here/local/share/organ-suite/scripts/recipes
for r in $(names); do
    check_exit 2 "$r by a path with a space" recipe $r BASE=v.gguf DONOR=c.gguf BIN="$BUILT"
    if grep -q "a path with spaces" "$T/err"; then ok; else bad "$r by a path with a space: $(cat "$T/err")"; fi
done
finish
