#!/bin/sh
# results-method.sh - what noise, shuffled and trained tensors score: the tables method-* of
# docs/method.md. results.sh runs it; some minutes. Needs python3 for the script of that page.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=tests/engine/part.sh disable=SC1091
. tests/engine/part.sh


# Its random numbers differ between versions of Python.
if command -v python3 > /dev/null 2>&1; then
    sed -n '/^## noise.py/,$p' docs/method.md | sed -n 's/^    //p' > "$M/noise.py"
    python3 "$M/noise.py" | organ-measure -q - | awk -F '\t' -v OFS='\t' '
        BEGIN {
            print "# tolerance", "*", "3%"
            print "# tolerance", "K", "50%"
            print "# tolerance", "C", "50%"
            print "# tolerance", "H", "0.1"
            print "# tolerance", "theta", "5"
            print "# tolerance", "calibrated", "7"
            print "values", "H", "K", "C", "theta", "dimension", "calibrated", "row_theta"
            split("gauss:Gaussian,uniform:uniform,laplace:Laplace,student_t3:Student t (3 degrees of freedom)," \
                "cauchy:Cauchy,two:-1 or 1,ternary:-1 or 0 or 1,sparse:1 % Gaussian and the rest 0," \
                "ramp:a ramp 0..1 (no noise),sine:a sine (no noise),constant:a constant (no noise)", list, ",")
            for (i in list) { split(list[i], f, ":"); says[f[1]] = f[2] }
        }
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        { print says[$1], sprintf("%.3f", $at["entropy"]), sprintf("%.2f", $at["kurtosis"]),
            sprintf("%.1f", $at["cv"]), sprintf("%.1f", $at["theta"]),
            sprintf("%.3f", $at["dimension"]), sprintf("%.1f", $at["calibrated"]),
                sprintf("%.1f", $at["row_theta"]) }' | put method-noise
fi

{
    printf 'values\ttensors\tnull_theta\tmean theta\tstd\tmean calibrated\tlargest calibrated\n'
    for size in 200:256 200:1024 40:16384 40:102400; do
        node tests/engine/gauss.mjs ${size%:*} ${size#*:} | organ-measure -q - | awk -F '\t' -v OFS='\t' '
            NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
            {
                n++; values = $at["sampled"]; null = $at["null_theta"]; t = $at["theta"]; c = $at["calibrated"]
                sum += t; square += t * t; cal += c
                if (c > most) most = c
            }
            END { mean = sum / n; printf "%d\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\n",
                values, n, null, mean, sqrt(square / n - mean * mean), cal / n, most }'
    done
} | put method-counts

{
    printf 'values\tnull_theta\ttheta of Gaussian noise (three seeds)\tlargest calibrated\n'
    for power in 22 24 26; do
        for seed in 1 2 3; do node tests/engine/gauss.mjs 1 $((1 << power)) $seed |
            organ-measure -q - --sample 0 | tail -n 1; done | awk -F '\t' -v power=$power '
            { t = $15; if (NR == 1 || t < low) low = t; if (t > high) high = t;
                if ($19 > most) most = $19; null = $18 }
            END { printf "2^%d\t%.1f\t%.1f to %.1f\t%.1f\n", power, null, low, high, most }'
    done
} | put method-large

# Only the type and the size of a tensor count, so the data are zeros: NAME:NUMBER:BLOCK:BYTES.
{
    for type in F32:0:1:4 F16:1:1:2 BF16:30:1:2 Q8_0:8:32:34 Q6_K:14:256:210 Q5_K:13:256:176 Q4_K:12:256:144 \
        Q4_0:2:32:18 IQ4_XS:23:256:136 \
        IQ4_NL:20:32:18 Q3_K:11:256:110 Q2_K:10:256:84 IQ2_XXS:16:256:66 MXFP4:39:32:17 IQ1_S:19:256:50 \
        TQ1_0:34:256:54 TQ2_0:35:256:66; do
        name=${type%%:*} rest=${type#*:}
        number=${rest%%:*} rest=${rest#*:}
        record_head "$name" "$number" 256 400
        head -c $((256 * 400 / ${rest%:*} * ${rest#*:})) /dev/zero
    done
} | organ-measure -q - | awk -F '\t' -v OFS='\t' \
    'BEGIN { print "type", "null_theta" } NR > 1 { print $1, sprintf("%.1f", $18) }' | put method-types

{
    printf 'model\ttheta\tlowest to highest tensor\tcalibrated\trow_theta\tstars\n'
    for file in lab-base-q4_k_m lab-code-q4_k_m lab-verse-q4_k_m lab-stranger-q4_k_m lab-base-f16 lab-code-f16 \
        lab-verse-f16 lab-stranger-f16 lab-verse-q8_0; do
        organ-measure -q "$LAB/$file.gguf" --summary | awk -F '\t' -v file=$file '$1 == "model" {
            printf "%s\t%.1f\t%.1f to %.1f\t%.1f\t%.1f\t%d\n", file, $5, $6, $7, $9, $10, length($11) }'
    done
} | put method-trained

verse=$LAB/lab-verse-f16.gguf
{
    printf 'tensor\ttheta\tshuffled\trow_theta\tshuffled\n'
    for t in blk.0.attn_k.weight blk.2.ffn_gate.weight output.weight; do
        organ-extract -q "$verse" --tensors $t --output - > "$M/whole.bin"
        node tests/engine/spoil.mjs shuffle 1 < "$M/whole.bin" > "$M/shuffled.bin"
        for part in whole shuffled; do organ-measure -q "$M/$part.bin" --sample 0 | tail -n 1; done | awk -F '\t' '
            { theta[NR] = $15; row[NR] = $20 } END { printf "%s\t%.2f\t%.2f\t%.1f\t%.1f\n",
                $1, theta[1], theta[2], row[1], row[2] }'
    done
} | put method-shuffled

organ-measure -q "$LAB/lab-moe-q8_0.gguf" --wells 4 | awk -F '\t' -v OFS='\t' '
    BEGIN { print "tensor", "theta", "calibrated" } NR > 1 { print $1, sprintf("%.1f", $15), sprintf("%.1f", $19) }' |
        put method-wells

{
    printf 'model\tedge\tlowest to highest matrix\tshuffled\n'
    for m in base verse code stranger; do
        organ-extract -q "$LAB/lab-$m-f16.gguf" --type attention,organ --output - > "$M/whole.bin"
        node tests/engine/spoil.mjs shuffle 1 < "$M/whole.bin" > "$M/shuffled.bin"
        for part in whole shuffled; do organ-measure -q "$M/$part.bin" --spectral |
            sed 1d; done | awk -F '\t' -v m=$m '
            { n++; e[n] = $22 }
            END {
                n /= 2
                for (i = 1; i <= n; i++) { sum += e[i]; other += e[n + i]; if (i == 1 || e[i] < low) low = e[i];
                    if (e[i] > high) high = e[i] }
                printf "%s\t%.2f\t%.2f to %.1f\t%.2f\n", m, sum / n, low, high, other / n
            }'
    done
} | put method-edges
[ ! -e "$M/changed" ]
