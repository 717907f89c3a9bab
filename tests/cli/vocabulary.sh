# vocabulary.sh - models as plain arguments, in the order base, other; options remain as names for them.
. "$(dirname "$0")/lib.sh"
V=$LAB/lab-verse-q4_k_m.gguf C=$LAB/lab-code-q4_k_m.gguf M=$LAB/lab-base-q4_k_m.gguf

organ-transplant --base "$V" --donor "$C" --type organ -o "$T/1.gguf"
check "transplant" organ-transplant "$V" "$C" --type organ -o "$T/2.gguf"
check_same "$T/1.gguf" "$T/2.gguf" "transplant: base, donor"
check "one of them named" organ-transplant "$V" --donor "$C" --type organ -o "$T/3.gguf"
check_same "$T/1.gguf" "$T/3.gguf" "transplant: base, --donor"
check_error 2 "more than one donor" "three models" organ-transplant "$V" "$C" --donor "$M" --check
organ-graft --base "$V" --donor "$C" --layers 1 -o "$T/1.d" 2> /dev/null
check "graft" organ-graft "$V" "$C" --layers 1 -o "$T/2.d"
check_same "$T/1.d/manifest.json" "$T/2.d/manifest.json" "graft: base, donor"
check_error 2 "use organ-assemble for a model" "extract to a model's name" organ-extract "$V" -o "$T/x.gguf"
check_absent "$T/x.gguf" "extract to a model's name"
organ-lora -q --base "$M" --tuned "$C" --rank 2 -o "$T/1.gguf" --force > /dev/null
check "lora" organ-lora -q "$M" "$C" --rank 2 -o "$T/2.gguf" --force
check_same "$T/1.gguf" "$T/2.gguf" "lora: base, tuned"
organ-merge --no-hash --method linear --model "$V" --model "$C,weight=2" -o "$T/1.gguf" --force
check "merge" organ-merge --no-hash "$V" "$C,weight=2" -o "$T/2.gguf" --force
check_same "$T/1.gguf" "$T/2.gguf" "merge: linear without a base"
grep -q "method linear, because there is no base" "$T/err" && ok || bad "no note: $(cat "$T/err")"
check "merge with a base" organ-merge --no-hash --base "$M" "$V" "$C" -o "$T/2.gguf" --force
grep -q "method iso, because there is a base" "$T/err" && ok || bad "no note: $(cat "$T/err")"
organ-merge --no-hash --method iso --base "$M" --model "$V" --model "$C" -o "$T/1.gguf" --force
check_same "$T/1.gguf" "$T/2.gguf" "merge: iso with a base"
finish
