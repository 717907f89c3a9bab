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

# Name, unit, and command. The unit is value, tensor, or sample, of which there are 100000.
jobs() {
	sed 's/ *| */	/g' <<'EOF'
measure --sample 0, F16      | value  | organ-measure -q -j 1 --sample 0 a-f16.gguf
measure --sample 0, BF16     | value  | organ-measure -q -j 1 --sample 0 a-bf16.gguf
measure --sample 0, Q8_0     | value  | organ-measure -q -j 1 --sample 0 a-q8_0.gguf
measure --sample 0, Q6_K     | value  | organ-measure -q -j 1 --sample 0 a-q6_k.gguf
measure, F16                 | sample | organ-measure -q -j 1 a-f16.gguf
measure, Q6_K                | sample | organ-measure -q -j 1 a-q6_k.gguf
measure, F32                 | sample | organ-measure -q -j 1 a-f32.gguf
measure                      | tensor | organ-measure -q -j 1 many-a.gguf
compare --sample 0           | value  | organ-compare -q -j 1 --sample 0 a-f16.gguf b-f16.gguf
compare                      | tensor | organ-compare -q -j 1 many-a.gguf many-b.gguf
check                        | tensor | organ-check -q many-a.gguf
check --hash                 | value  | organ-check -q --hash a-f16.gguf
extract --list               | tensor | organ-extract --list many-a.gguf
extract --list --json        | tensor | organ-extract --list --json many-a.gguf
assemble --dtype q8_0        | value  | organ-assemble -q -j 1 --force a-f16.gguf --dtype *=q8_0 -o out.gguf
transplant --blend linear    | value  | organ-transplant -q -j 1 --force --base a-f16.gguf --donor b-f16.gguf --blend linear:0.3 -o out.gguf
merge linear                 | value  | organ-merge -q --no-hash -j 1 --force --method linear --model b-f16.gguf --model c-f16.gguf -o out.gguf
merge ties                   | value  | organ-merge -q --no-hash -j 1 --force --method ties,density=0.3 --base a-f16.gguf --model b-f16.gguf --model c-f16.gguf -o out.gguf
purify haar                  | value  | organ-purify -q -j 1 --force a-f16.gguf --method haar -o out.gguf
purify fft                   | value  | organ-purify -q -j 1 --force a-f16.gguf --method fft -o out.gguf
EOF
}
