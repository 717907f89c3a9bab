#!/bin/sh
# outputs.sh [BIN] - run a fixed corpus of commands on the test data and print one line per
# command: its name, exit status, and the SHA-256 of its standard output, of its messages and of the
# files it wrote. Comparing the lines of two builds shows which outputs a change of the code changed:
#
#   sh tests/outputs.sh old/build/bin > before; sh tests/outputs.sh > after; diff before after
#
# ONLY=PATTERN selects commands by name. KEEP=DIR keeps the outputs.
set -u
root=$(cd "${DATA_ROOT:-$(dirname "$0")/..}" && pwd) || exit 2
B=${1:-$root/build/bin}
case $B in /*) ;; *) B=$PWD/$B ;; esac
T=${KEEP:-$(mktemp -d "${TMPDIR:-/tmp}/outputs.XXXXXX")} || exit 2
[ -n "${KEEP:-}" ] || trap 'rm -rf "$T"' EXIT
mkdir -p "$T" && cd "$T" || exit 2
cp -r "$root/tests/data" data || exit 2
PATH=$B:$PATH
L=data/lab
V=$L/lab-verse-q4_k_m.gguf C=$L/lab-code-q4_k_m.gguf A=$L/lab-base-q4_k_m.gguf S=$L/lab-stranger-q4_k_m.gguf
Q=$L/lab-verse-q8_0.gguf
organ-assemble -q "$V" --dtype q8_0 --output "$Q" || exit 1
I=$L/lab-verse.imatrix.gguf

sums() { # of all files below $1, or - if there are none
    if [ -e "$1" ]; then
        find "$1" -type f | LC_ALL=C sort | while read -r f; do printf '%s ' "${f#"$1"}"; sha256sum < "$f"; done \
            | sha256sum | cut -c1-16
    else echo -; fi
}
n=0
# run NAME COMMAND...: the command writes to out/ if it writes files.
run() {
    name=$1
    shift
    case $name in *"${ONLY:-}"*) ;; *) return ;; esac
    rm -rf out && mkdir out
    n=$((n + 1))
    "$@" > stdout 2> stderr < "${IN:-/dev/null}"
    printf '%s %s %s %s %s\n' "$name" $? "$(sha256sum < stdout | cut -c1-16)" "$(sha256sum < stderr | cut -c1-16)" \
        "$(sums out)"
    [ -z "${KEEP:-}" ] || { mkdir -p "kept/$name" && cp -r stdout stderr out "kept/$name/"; }
}

# ---- every small file, read by every reader -------------------------------------
for f in data/gguf/*.gguf; do
    b=$(basename "$f" .gguf)
    run "extract-list/$b" organ-extract "$f" --list --json
    run "extract/$b" organ-extract "$f" --output out/d
    run "assemble/$b" organ-assemble "$f" --output out/m.gguf
    run "check/$b" organ-check "$f" --data --json
    run "keys/$b" organ-keys "$f" --json --full
    run "measure/$b" organ-measure "$f" --sample 0
    IN=$f run "pipe/$b" organ-extract - --list
done
# ---- models of the lab ----------------------------------------------------------
for f in "$L"/*.gguf; do
    b=$(basename "$f" .gguf)
    run "lab-list/$b" organ-extract "$f" --list
    run "lab-keys/$b" organ-keys "$f" --json --full
    run "lab-check/$b" organ-check --data "$f" --json -v
    run "lab-hash/$b" organ-check --hash "$f"
    run "lab-measure/$b" organ-measure "$f"
    run "lab-measure-all/$b" organ-measure "$f" --sample 0 -j 1 --json --split-experts
    run "lab-summary/$b" organ-measure "$f" --summary --spectral
    run "lab-extract/$b" organ-extract "$f" --output out/d --split-experts
done
for isa in 0 1 2; do
    for f in "$V" "$Q"; do
        run "isa$isa-measure/$(basename "$f")" env GG_ISA=$isa organ-measure "$f" --sample 0
        run "isa$isa-purify-haar/$(basename "$f")" env GG_ISA=$isa organ-purify "$f" --output out/m.gguf
        run "isa$isa-purify-fft/$(basename "$f")" env GG_ISA=$isa organ-purify "$f" --method fft --output out/m.gguf
    done
done
run measure-svg organ-measure $V --svg out/m.svg --color row_theta
run measure-wells organ-measure $V --wells 5
run measure-blocks organ-measure $V --blocks --sample 4096
run measure-histogram organ-measure $V --histogram out/h.tsv
run measure-heat organ-measure $V --heat
run measure-imatrix organ-measure $V --imatrix $I --json
run measure-rank organ-measure $V --imatrix $I --rank blocks
run measure-where organ-measure $V --where 'theta<40' --where class=organ
run check-rules organ-check --rules
run check-bad organ-check nothing.gguf
# ---- compare --------------------------------------------------------------------
for o in "$C" "$A" "$S" "$Q"; do
    b=$(basename "$o" .gguf)
    run "compare/$b" organ-compare $V "$o"
    run "compare-summary/$b" organ-compare $V "$o" --summary --json
    run "compare-keys/$b" organ-compare $V "$o" --keys
    run "compare-lineage/$b" organ-compare $V "$o" --lineage
    run "compare-align/$b" organ-compare $V "$o" --align --summary
    run "compare-patch/$b" organ-compare $V "$o" --patch out/p.gguf
done
run compare-svg organ-compare $V $C --svg out/c.svg
run compare-heat organ-compare $V $C --heat
run compare-imatrix organ-compare $Q $V --imatrix $I
run compare-map organ-compare $V $C --map 0-1=2-3
run compare-sample organ-compare $V $C --sample 10 --json
run compare-units organ-compare $V $C --align
# ---- assemble -------------------------------------------------------------------
for t in q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k_m q4_k_s q4_k_m q5_k_m q6_k iq4_xs iq4_nl f16 bf16 f32 mxfp4_moe iq3_s \
    tq1_0 tq2_0; do
    run "dtype/$t" organ-assemble $Q --dtype $t --output out/m.gguf --report -
done
for t in iq1_s iq1_m iq2_xxs iq2_xs iq2_s iq3_xxs q2_k_s iq2_m; do
    run "dtype-imatrix/$t" organ-assemble $Q --dtype $t --imatrix $I --output out/m.gguf --report out/r.json --json
done
run dtype-rules organ-assemble $Q --dtype '*ffn_up*=q4_0,*attn*=f16' --output out/m.gguf --fallback f16
run size organ-assemble $Q --imatrix $I --size 1.3M --output out/m.gguf --rules out/rules
run bpw organ-assemble $V --bpw 4 --dry-run
run bpw-types organ-assemble $Q --bpw 5 --types q4_k,q5_k,q6_k,keep --output out/m.gguf
run shards organ-assemble $V --shards 3 --output out/s.gguf
run shard-size organ-assemble $V --shard-size 500K --output out/s.gguf
run set-kv organ-assemble $V --set-kv general.name=str:x --set-kv-file 'general.description=data/README.md' \
    --output out/m.gguf
run assemble-pipe organ-assemble $V --output - --dtype q8_0
IN=$V run assemble-stdin organ-assemble - --output out/m.gguf --dtype q8_0
moe=$L/lab-moe-q8_0.gguf
if [ -e "$moe" ]; then
    run keep-experts organ-assemble $moe --keep-experts 0-1 --output out/m.gguf
    run keep-importance organ-assemble $moe --keep-experts 2 --by importance --imatrix $L/lab-moe.imatrix.gguf \
        --output out/m.gguf
    run measure-experts organ-measure $moe --imatrix $L/lab-moe.imatrix.gguf --rank experts
fi
# ---- graft, transplant, stack, lora, keys, patch --------------------------------
for m in exact retype convert; do
    run "transplant-$m" organ-transplant --base $V --donor $C --type organ --layers 1-2 --match $m --output out/m.gguf
    run "transplant-q8-$m" organ-transplant --base $V --donor $Q --type organ --match $m --output out/m.gguf
    run "graft-$m" organ-graft --base $V --donor $C --type skeleton --match $m --output out/d
    run "graft-check-$m" organ-graft --base $V --donor $Q --match $m --check --json
done
for b in linear:0.3 slerp:0.5 linear:0..0.5; do
    run "blend-$b" organ-transplant --base $V --donor $C --blend $b --output out/m.gguf
done
run blend-task organ-transplant --base $V --donor $C --ancestor $A --blend task:0.7 --output out/m.gguf
run transplant-map organ-transplant --base $V --donor $C --map 0-1=2-3 --output out/m.gguf --dtype q8_0 --imatrix $I
run transplant-strangers organ-transplant --base $V --donor $S --type organ --output out/m.gguf
run transplant-align organ-transplant --base $V --donor $S --type organ --align --blend linear:0.5 --output out/m.gguf
run transplant-shards organ-transplant --base $V --donor $C --type norm --shards 2 --copy-kv 'general.name' \
    --output out/m.gguf
run transplant-add organ-transplant --base $V --donor $C --add --check
run adapter organ-transplant --base $A --adapter $L/lab-lora-code.gguf --scale 0.7 --output out/m.gguf
run adapter-graft organ-graft --target $A --adapter $L/lab-lora-code.gguf --output out/d
cp $V place.gguf && chmod u+w place.gguf
run in-place organ-transplant --base place.gguf --donor $C --type organ --layers 1 --in-place --undo out/undo.bin
run in-place-hash organ-check --hash place.gguf
run keys-edit organ-keys $V --set general.name=str:New --delete general.quantization_version --output out/m.gguf
run keys-in-place organ-keys place.gguf --set general.name=str:abc --in-place
run keys-in-place-hash organ-check --hash place.gguf
run stack organ-stack --output out/m.gguf $V 0-1,1-3
run stack-two organ-stack --output out/m.gguf $V 0-1 $C 2-3 --svg out/s.svg
run stack-drop organ-stack --drop 2 $V --check --json
run lora organ-lora --base $A --tuned $C --rank 8 --output out/a.gguf
run lora-energy organ-lora --base $A --tuned $V --energy 0.5 --output out/a.gguf --json
organ-compare $V $C --patch patch.gguf > /dev/null 2>&1
run patch-apply organ-transplant --base $V --donor patch.gguf --output out/m.gguf
organ-extract $V --output dir > /dev/null 2>&1
run dir-purify organ-purify dir --output out/d --method haar --type organ
run dir-purify-bin organ-purify dir --output - --method fft --strength 0.3 --layers 1
run dir-assemble organ-assemble dir --output out/m.gguf
run dir-graft organ-graft --source $C --target dir --layers 1 --output out/d --svg out/g.svg
run purify-dry organ-purify $V --dry-run --json
run purify-q8 organ-purify $Q --dtype q4_k --imatrix $I --strength 0.5 --output out/m.gguf
# ---- merge ----------------------------------------------------------------------
for m in linear slerp,t=0.4 nuslerp multislerp karcher task ties,density=0.4 dare-linear,density=0.5 \
    dare-ties,density=0.5 \
    della,density=0.5 della-linear,density=0.5 breadcrumbs breadcrumbs-ties sce,select_topk=0.5 ram ramplus \
    model-stock iso; do
    case $m in
    slerp*) set -- --base $V --model $C ;;
    karcher | sce* | ram | ramplus | model-stock) set -- --base $A --model $V --model $C ;;
    *) set -- --base $A --model $V --model $C,weight=0.4 ;;
    esac
    run "merge/$m" organ-merge --method "$m" "$@" --output out/m.gguf --card out/card.md --svg out/m.svg
    run "merge-f16/$m" organ-merge --method "$m" "$@" --output out/m.gguf --dtype f16 --seed 3
done
for m in nearswap,t=0.001 arcee-fusion; do run "merge/$m" organ-merge --method "$m" --base $V --model $C \
    --output out/m.gguf; done
run merge/passthrough organ-merge --method passthrough --model $C,scale=0.5 --output out/m.gguf
run merge-check organ-merge --method ties,weight:ffn=0.3 --base $A --model $V,density:attn_q=0.2..0.8 --model $C \
    --check
run merge-align organ-merge --method linear --align --base $A --model $V --model $C --output out/m.gguf
run merge-strangers organ-merge --method linear --model $V --model $S --output out/m.gguf
cat > merge.json << END
{"merge_method": "ties", "base_model": "$A", "parameters": {"density": 0.5, "normalize": true},
 "models": [{"model": "$V", "parameters": {"weight": [0, 0.5, 1]}}, {"model": "$C",
     "parameters": {"weight": [{"filter": "mlp", "value": 0.7}, {"value": 0.3}]}}],
 "dtype": "bfloat16"}
END
run merge-config organ-merge --config merge.json --output out/m.gguf --card out/card.md
cat > slices.json << END
{"merge_method": "passthrough", "slices": [{"sources": [{"model": "$V", "layer_range": [0, 3]}]},
    {"sources": [{"model": "$C", "layer_range": [1, 4]}]}]}
END
run merge-slices organ-merge --config slices.json --output out/m.gguf --svg out/s.svg
# ---- mistakes of use ------------------------------------------------------------
for t in extract measure check compare keys assemble purify graft transplant stack lora merge; do
    run "usage-none/$t" "organ-$t"
    run "usage-unknown/$t" "organ-$t" --nonsense
    run "usage-typo/$t" "organ-$t" --outptu x
    run "usage-missing/$t" "organ-$t" $V --output
    run "usage-number/$t" "organ-$t" -j x $V
done
run usage-both organ-measure $V --summary --wells 3
run usage-color organ-measure $V --color theta
run usage-merge organ-merge --method nope --model $V --output out/m.gguf
run usage-extract organ-extract $V
run usage-exists organ-extract $V --output data
run usage-type organ-extract $V --list --type nose
run usage-layers organ-extract $V --list --layers 99
run usage-where organ-extract $V --list --where 'nope<3'
run usage-dtype organ-assemble $V --dtype q9 --output out/m.gguf
run usage-keys organ-keys $V --get nothing
