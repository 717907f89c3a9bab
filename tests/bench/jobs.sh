# shellcheck shell=sh
# jobs.sh - read by instructions.sh and against.sh: commands whose cost is compared with another time.

# make_models DIR MIB MANY: makes the models that the jobs use in DIR: a and b have one tensor of MIB
# in F16; many-a and many-b have MANY tensors of 1024 values.
make_models() {
	mkdir -p "$1"
	"$BENCH/bench_model" "$1/a-f16.gguf" "$2" 1 1
	"$BENCH/bench_model" "$1/b-f16.gguf" "$2" 2 1
	"$BENCH/bench_model" "$1/c-f16.gguf" "$2" 3 1
	"$BENCH/bench_model" "$1/many-a.gguf" $(($3 / 512)) 1 "$3"
	"$BENCH/bench_model" "$1/many-b.gguf" $(($3 / 512)) 2 "$3"
	for t in bf16 q8_0 q6_k f32; do "$BIN/organ-assemble" -q "$1/a-f16.gguf" --dtype "*=$t" -o "$1/a-$t.gguf"; done
}

# Name, unit, and command. The unit is value, tensor, or sample, of which there are 100000. "1" means
# one thread without messages, A, B and C are the models in F16, and "out" is an output.
jobs() {
	sed 's/ *| */	/g; s/ 1 / -q -j 1 /; s/ out$/ --force -o out.gguf/
		s/ A / a-f16.gguf /; s/ A$/ a-f16.gguf/; s/ B / b-f16.gguf /; s/ B$/ b-f16.gguf/; s/ C / c-f16.gguf /' <<'EOF'
measure --sample 0, F16   | value  | organ-measure 1 --sample 0 A
measure --sample 0, BF16  | value  | organ-measure 1 --sample 0 a-bf16.gguf
measure --sample 0, Q8_0  | value  | organ-measure 1 --sample 0 a-q8_0.gguf
measure --sample 0, Q6_K  | value  | organ-measure 1 --sample 0 a-q6_k.gguf
measure, F16              | sample | organ-measure 1 A
measure, Q6_K             | sample | organ-measure 1 a-q6_k.gguf
measure, F32              | sample | organ-measure 1 a-f32.gguf
measure                   | tensor | organ-measure 1 many-a.gguf
compare --sample 0        | value  | organ-compare 1 --sample 0 A B
compare                   | tensor | organ-compare 1 many-a.gguf many-b.gguf
check                     | tensor | organ-check -q many-a.gguf
check --hash              | value  | organ-check -q --hash A
extract --list            | tensor | organ-extract --list many-a.gguf
extract --list --json     | tensor | organ-extract --list --json many-a.gguf
assemble --dtype q8_0     | value  | organ-assemble 1 A --dtype *=q8_0 out
transplant --blend linear | value  | organ-transplant 1 --base A --donor B --blend linear:0.3 out
merge linear              | value  | organ-merge 1 --no-hash --method linear --model B --model C out
merge ties                | value  | organ-merge 1 --no-hash --method ties --base A --model B --model C out
purify haar               | value  | organ-purify 1 A --method haar out
purify fft                | value  | organ-purify 1 A --method fft out
EOF
}
