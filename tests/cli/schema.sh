#!/bin/sh
# schema.sh - docs/manifest.schema.json describes the manifests that the tools write,
# and refuses broken ones. With Python's jsonschema the schema itself is applied, with
# jq the structure is looked at, with neither the lines are. HOW=jq and HOW=awk force that.
. "$(dirname "$0")/lib.sh"
SCHEMA=docs/manifest.schema.json
how=${HOW:-}
if [ "$how" ]; then :
elif have python3 && python3 -c 'import jsonschema; jsonschema.Draft202012Validator' 2> /dev/null; then
    how="jsonschema"
else
    echo "left out: the schema by jsonschema (python3-jsonschema)"
    how='awk'
    if have jq "JSON read by jq"; then how=jq; fi
fi

cat > "$T/validate.py" << 'END'
import json, sys, jsonschema
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
for name in sys.stdin.read().split():
    try:
        validator.validate(json.load(open(name)))
        print("valid")
    except (ValueError, jsonschema.ValidationError) as e:
        print("invalid", str(e).split("\n")[0])
END

cat > "$T/structure.jq" << 'END'
def count: type == "number" and . >= 0;
def bytes: type == "string" or (type == "object" and keys == ["base64"]);
def shape: (.dims | type == "array" and length <= 4 and all(.[]; count)) and (.dtype | type == "string");
.format == "organ-manifest" and .version == 1
and (keys - ["format", "layout", "metadata", "model", "tensors", "version"] == [])
and (.model | (.gguf_version == 2 or .gguf_version == 3) and (.bytes | count) and (.parameters | count))
and (.metadata | type == "array" and all(.[]; (.key | bytes) and (.type | type == "string") and has("value")
    and ((.type == "arr") == has("items"))))
and (.tensors | type == "array" and all(.[]; (.name | bytes) and shape and (.bytes | count)
    and (.block == null or (.block | count))
    and (.class | IN("skeleton", "organ", "embed", "norm", "adapter", "other"))
    and (.file | type == "string" and (test("^/|(^|/)\\.{0,2}(/|$)") | not))
    and ((has("sha256") | not) or (.sha256 | test("^[0-9a-f]{64}$")))))
and ((has("layout") | not) or (.layout | keys - ["files", "general.alignment", "general.architecture",
    "general.name", "stacked"] == []))
END

# One line a tensor with all its keys in order; the frame around them.
by_lines() {
    awk '
    BEGIN {
        row = "^    [{]\"name\": .*, \"class\": \"(skeleton|organ|embed|norm|adapter|other)\", "
        row = row "\"block\": (null|[0-9]+), \"role\": .*, \"dims\": [[][0-9, ]*[]], "
        row = row "\"dtype\": \"[A-Z0-9_]+\", \"bytes\": [0-9]+, \"offset\": [0-9]+, "
        row = row "\"file\": \"[^/\"][^\"]*\"" # not absolute
    }
    NR == 1 && $0 != "{" { bad = 1 }
    /^  "format": "organ-manifest",$/ { format = 1 }
    /^  "version": 1,$/ { version = 1 }
    /^  "tensors": \[/ { list = 1; next }
    list && /^    \{/ {
        if ($0 !~ row) bad = 1
        if ($0 ~ /"sha256"/ && $0 !~ /"sha256": "[0-9a-f]+"/) bad = 1
    }
    END { exit bad || !format || !version || !list || $0 != "}" }' "$1"
}

# manifest valid|invalid FILE WHAT: a copy of FILE, to be judged with all others at the end,
# since each start of Python costs more than the work.
n=0
mkdir "$T/all"
manifest() {
    n=$((n + 1))
    cp "$2" "$T/all/$n" || bad "$3: no manifest"
    echo "$1" >> "$T/expected"
    echo "$T/all/$n" >> "$T/list"
    echo "$3" >> "$T/what"
}

# For each file of the list: "valid", or "invalid" and a reason.
judge() {
    if [ "$how" = jsonschema ]; then
        python3 "$T/validate.py" $SCHEMA < "$T/list"
        return
    fi
    while read -r f; do
        if [ "$how" = jq ]; then jq -e -f "$T/structure.jq" "$f" > "$T/out" 2>&1; else by_lines "$f"; fi &&
            echo valid || echo invalid
    done < "$T/list"
}

# The manifest of a model, extracted with the options given, is valid.
good() {
    f=$1
    shift
    rm -rf "$T/d"
    check "extract $f" organ-extract -q "$f" "$@" --output "$T/d"
    manifest valid "$T/d/manifest.json" "$f $*"
}

# A manifest changed by a sed expression is not.
broken() {
    sed "$1" "$T/sound.json" > "$T/broken.json"
    if cmp -s "$T/sound.json" "$T/broken.json"; then bad "$1 changes nothing"; else ok; fi
    manifest invalid "$T/broken.json" "$1"
}

# A small model, as the manifests of the lab take long to be judged.
organ-stack -q "$LAB/lab-verse-q4_k_m.gguf" 0-1 -o "$T/stack.gguf" &&
    organ-keys -q "$T/stack.gguf" --set tokenizer.ggml.tokens=str[]:a,b --set tokenizer.ggml.scores=f32[]:0,0 --set \
        tokenizer.ggml.token_type=i32[]:1,1 --output "$T/small.gguf" --no-strict 2> "$T/err" || bad "a small model"
for f in "$D"/gguf/*.gguf "$LAB"/*.gguf; do
    case $f in
    */big-endian-v3.gguf | */v1-by-hand.gguf) continue ;;
    */kv-large-values.gguf | "$LAB"/*) exhaustive || [ "$f" = "$LAB/lab-lora-code.gguf" ] || continue ;;
    esac
    good "$f"
done
good "$T/small.gguf"
good "$T/small.gguf" --type organ --layers 1
good "$T/small.gguf" --split-experts

organ-extract -q "$T/small.gguf" --output "$T/v" && cp "$T/v/manifest.json" "$T/sound.json"
if [ -x "$BIN/organ-measure" ]; then
    check "organ-measure --update" organ-measure -q --dir "$T/v" --sample 1000 --update
    manifest valid "$T/v/manifest.json" "with measures"
fi
if [ -x "$BIN/organ-purify" ]; then
    check "organ-purify" organ-purify -q --dir "$T/v" --output "$T/p" --method haar --layers 1
    manifest valid "$T/p/manifest.json" "with a history"
fi
if [ -x "$BIN/organ-graft" ]; then
    check "organ-graft" organ-graft -q --source "$LAB/lab-code-q4_k_m.gguf" --target "$T/v" --type organ --layers 0-1 \
        --output "$T/g"
    manifest valid "$T/g/manifest.json" "grafted"
fi
manifest valid "$T/sound.json" "sound"
broken 's/organ-manifest/other-manifest/'
broken 's/"version": 1,/"version": 2,/'
broken 's/"class": "norm"/"class": "bone"/'
broken 's/"dims": \[256\]/"dims": [-256]/'
broken 's|"file": "norm/|"file": "/norm/|'
broken 's/"sha256": "[0-9a-f]/"sha256": "X/'
if [ "$how" != awk ]; then
    broken 's|"file": "norm/|"file": "../norm/|'
    broken 's/"dims": \[256\]/"dims": [1, 1, 1, 1, 1, 1, 1, 1, 256]/'
    broken 's/"type": "u32", "value": 512/"type": "u32"/'
fi
if [ "$how" = jsonschema ]; then
    broken 's/"type": "u32", "value": 512/"type": "u32", "value": -1/'
    broken 's/"type": "f32", "value": 10000/"type": "f32", "value": {"bits": "7fc0"}/'
    broken 's/"items": "str"/"items": "arr"/'
    broken 's/"sha256": "\([0-9a-f]*\)"}/"sha256": "\1", "history": ["purified"]}/'
    broken 's/"dtype": "F32"/"dtype": "Q4_2"/'
fi

judge > "$T/verdicts" 2> "$T/err"
check_text "$(($(wc -l < "$T/verdicts")))" $n "verdicts: $(tail -n 1 "$T/err")"
paste "$T/expected" "$T/verdicts" "$T/what" > "$T/pairs"
while IFS=$TAB read -r expected verdict what; do
    if [ "$expected" = "${verdict%% *}" ]; then ok; else bad "$what: $verdict, $expected wanted"; fi
done < "$T/pairs"
NAME=schema export NAME
finish
