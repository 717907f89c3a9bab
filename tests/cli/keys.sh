#!/bin/sh
# shellcheck disable=SC1091,SC2086,SC2010,SC2046
# keys.sh - organ-keys: the table, bare values, and edits into a new file, a pipe, a set of
# shards and in place. Refused edits leave nothing behind.
. "$(dirname "$0")/lib.sh"
VERSE=$LAB/lab-verse-q4_k_m.gguf
G=$D/gguf

# ---- reading ------------------------------------------------------------------
check "a table" organ-keys $VERSE
check_text "$(head -n 1 "$T/out")" "key${TAB}type${TAB}count${TAB}value" "header line"
check_text "$(grep -c . "$T/out")" 25 "a row per key"
check_text "$(awk -F '\t' 'NF != 4' "$T/out")" "" "four columns a row"
check_text "$(grep '^tokenizer.ggml.tokens' "$T/out")" \
    "tokenizer.ggml.tokens${TAB}str[]${TAB}1024${TAB}$(printf '["<unk>", "<s>", "</s>", "<0x00>", "<0x01>", '
        printf '"<0x02>", "<0x03>", "<0x04>", ...]')" "an array's first values"
check "patterns" organ-keys $VERSE '*.block_count' 'general.n*'
check_text "$(cells key "$T/out" | tr '\n' ' ')" "key general.name llama.block_count " \
    "rows stay in the order of the file"
check_exit 1 "a pattern that matches nothing" organ-keys $VERSE 'general.*' 'nope*'
check_text "$(grep -c "no key matches 'nope\*'\$" "$T/err")" 1 "it is named"
check_text "$(grep -c '^general\.' "$T/out")" "$(organ-keys $VERSE 'general.*' | grep -c '^general')" \
    "the others are shown"
check_error 1 "no key matches 'nope*'" "only a pattern that matches nothing" organ-keys $VERSE 'nope*'
check_text "$(cat "$T/out")" "" "no table"
# New keys that are probably misspelt, and templates that are the names of files.
said() { # NOTE KEY=VALUE...: organ-keys and organ-assemble note it, and nothing else
    note=$1
    shift
    check "$*" organ-keys $VERSE --set "$@" -o "$T/said.gguf" --force
    check_text "$(cat "$T/err")" "${note:+organ-keys: $note}" "organ-keys --set $*"
    check "$*" organ-assemble $VERSE --set-kv "$@" -o "$T/said.gguf" --force
    check_text "$(sed 's/--set-kv-file/--set-file/' "$T/err")" "${note:+organ-assemble: $note}" \
        "organ-assemble --set-kv $*"
}
said "general.nmae is a new key, which no engine may know; did you mean general.name?" general.nmae=str:x
said "llama.context_lenght is a new key, which no engine may know; did you mean llama.context_length?" \
    llama.context_lenght=u32:7
said "" general.foo=u32:1
said "" tokenizer.ggml.eot_token_id=u32:2
said "" general.name=str:nmae
template="tokenizer.chat_template is set to the text"
said "$template 'chat.jinja', not to the template in it: use --set-file tokenizer.chat_template=chat.jinja" \
    tokenizer.chat_template=str:chat.jinja
said "$template 'LICENSE', not to the template in it: use --set-file tokenizer.chat_template=LICENSE" \
    tokenizer.chat_template=str:LICENSE
said "" tokenizer.chat_template=str:chatml
said "" 'tokenizer.chat_template=str:{{ messages }}./x'
check "an array whole" organ-keys $VERSE tokenizer.ggml.token_type --full
check_text "$(sed -n 2p "$T/out" | tr -cd , | wc -c | tr -d ' ')" 1023 "all of its values"
check "a long string in a pipe" organ-keys $G/kv-large-values.gguf
if [ "$(wc -c < "$T/out")" -gt 32000 ]; then ok; else bad "a string is cut in a pipe"; fi
for f in kv-odd-keys kv-strings-binary kv-all-scalars kv-arrays-all-types kv-empty-arrays-and-strings kv-key-65535; do
    check "$f: a table" organ-keys $G/$f.gguf --full
    check_text "$(awk -F '\t' 'NF != 4' "$T/out")" "" "$f: four columns a row"
    check_text "$(tr -d '\11\12\40-\176\200-\377' < "$T/out" | wc -c | tr -d ' ')" 0 "$f: no control bytes"
    check "$f: json" organ-keys $G/$f.gguf --json
    if have jq "JSON read by jq"; then check "$f: json is json" jq \
        -es 'all(has("key") and has("type") and has("count") and has("value"))' "$T/out"; fi
done
if have jq "JSON read by jq"; then
    organ-keys $VERSE --json > "$T/json"
    check_text "$(jq -s 'map(select(.key == "tokenizer.ggml.scores"))[0].value | length' "$T/json")" 1024 \
        "json has arrays whole"
    check_text "$(jq -r 'select(.key == "llama.rope.freq_base") | .value' "$T/json")" 10000 "a number in json"
fi
check "a key as the table prints it" organ-keys $G/kv-odd-keys.gguf 'tab\tkey'
check "the same for --get" organ-keys $G/kv-odd-keys.gguf --get 'tab\tkey'
check_text "$(cat "$T/out")" 7 "its value"

# Bare values.
check "a string" organ-keys $VERSE --get general.name
printf lab-verse > "$T/want"
check_same "$T/out" "$T/want" "without a newline"
check "a number" organ-keys $VERSE --get llama.block_count
echo 4 > "$T/want"
check_same "$T/out" "$T/want" "with a newline"
check "an array" organ-keys $VERSE --get tokenizer.ggml.tokens
check_text "$(($(wc -l < "$T/out"))) $(sed -n 3p "$T/out")" "1024 </s>" "a line per element"
check_error 1 "there is no key 'general.nope'" "an absent key" organ-keys $VERSE --get general.nope
check "from a pipe" sh -c "organ-keys - --get general.name < $VERSE"
check "from a directory" organ-extract -q $VERSE --output "$T/dir"
organ-keys $VERSE > "$T/want"
check "a directory's table" organ-keys "$T/dir"
check_same "$T/out" "$T/want" "file and directory"
check "any shard" organ-keys $G/x-00003-of-00003.gguf --get general.name
check_text "$(cat "$T/out")" sharded "the keys of the first shard"

# Headers are enough.
head -c 100000 $VERSE > "$T/cut.gguf"
check "an incomplete file" organ-keys "$T/cut.gguf"
check_same "$T/out" "$T/want" "all keys of an incomplete file"
if grep -q "incomplete: at least 1792544 bytes are missing" "$T/err"; then ok; else bad "an incomplete file: $(cat \
    "$T/err")"; fi
check "an incomplete pipe" sh -c "organ-keys - < $T/cut.gguf"
check_same "$T/out" "$T/want" "all keys of an incomplete pipe"
check_error 3 "" "but it cannot be written" organ-keys "$T/cut.gguf" --delete general.name --output "$T/none"
check_error 3 "" "nor changed" organ-keys "$T/cut.gguf" --set general.name=lab-versE --in-place
head -c 5000 $VERSE > "$T/cut.gguf"
check_error 3 "" "half a header" organ-keys "$T/cut.gguf"
cp $G/x-00003-of-00003.gguf "$T/"
check "a lone shard" organ-keys "$T/x-00003-of-00003.gguf"
if grep -q "shard 3 of 3.*missing" "$T/err"; then ok; else bad "a lone shard: $(cat "$T/err")"; fi
rm "$T/x-00003-of-00003.gguf"
check_error 2 "have no keys" "records" organ-keys "$T/dir/norm/output_norm.bin"
check_error 4 "no-such" "no file" organ-keys "$T/no-such.gguf"
check_error 3 "" "no model" organ-keys README.md

# ---- a new file ----------------------------------------------------------------
edit() { # OUTPUT EDIT...: of VERSE
    edit_out=$1
    shift
    organ-keys $VERSE "$@" --output "$edit_out" --force
}
check "an edit and back" edit "$T/a.gguf" --set general.name=str:x --set new.key=u8[]:1,2
check "back" organ-keys "$T/a.gguf" --set general.name=lab-verse --delete new.key --output "$T/b.gguf"
check_same "$T/b.gguf" $VERSE "an edit undone"
for f in $G/*.gguf; do
    case $f in */big-endian* | */v1-by* | */x-0*) continue ;; esac
    check "$f: a key more" organ-keys $f --set zz.extra=str:some --output "$T/a.gguf" --force
    organ-keys $f > "$T/want"
    printf 'zz.extra\tstr\t1\tsome\n' >> "$T/want"
    check "$f: its table" organ-keys "$T/a.gguf"
    check_same "$T/out" "$T/want" "$f: a key more"
    check "$f: through pipes" sh -c "organ-keys - --set zz.extra=str:some --output - < $f > $T/p.gguf"
    check_same "$T/p.gguf" "$T/a.gguf" "$f: through pipes"
    check "$f: and less" organ-keys "$T/a.gguf" --delete zz.extra --output "$T/b.gguf" --force
    case $f in *padding-nonzero*) continue ;; esac # padding after a header of another length
    check_same "$T/b.gguf" $f "$f: as it was"
done
check "all kinds" edit "$T/a.gguf" --delete general.description --rename llama.vocab_size=llama.words \
    --set llama.block_count=7 \
    --set a.f32=f32:0.1 --set a.arr=str[]:x,,y --set a.empty=str: --set llama.words=u64:3
check_text "$(organ-keys "$T/a.gguf" 'llama.[bw]*' 'a.*' | tail -n +2 | tr '\t\n' ' ;')" \
    'llama.block_count u32 1 7;llama.words u64 1 3;a.f32 f32 1 0.1;a.arr str[] 3 ["x", "", "y"];a.empty str 1 ;' \
    "all kinds"
check "delete makes room for a rename" edit "$T/a.gguf" --rename general.description=general.name --delete general.name
check_text "$(organ-keys "$T/a.gguf" --get general.name | cut -c 1-4)" 2.9M "delete comes first"
list=$(awk 'BEGIN { for (i = 0; i < 15000; i++) printf "%s%d", i ? "," : "", i }')
check "a long array" edit "$T/a.gguf" --set "long=u32[]:$list"
check_text "$(organ-keys "$T/a.gguf" --get long | tail -n 1)" 14999 "a long array"

# --get and --set-file are inverse.
printf 'a\0b\377\n\n' > "$T/v1"
: > "$T/v2"
head -c 100000 $VERSE > "$T/v3"
printf 'no newline' > "$T/v4"
for v in v1 v2 v3 v4; do
    check "$v into a key" edit "$T/a.gguf" --set-file "tokenizer.chat_template=$T/$v"
    check "$v out of it" organ-keys "$T/a.gguf" --get tokenizer.chat_template
    check_same "$T/out" "$T/$v" "$v: the same bytes"
done
check "from stdin" sh -c "organ-keys $VERSE --set-file general.name=- --output $T/a.gguf --force < $T/v1"
check_text "$(organ-keys "$T/a.gguf" general.name | cells value | tail -n 1)" 'a\x00b\xff\n\n' "from stdin"
check_error 2 "of type u32" "a file for a number" edit "$T/none" --set-file "llama.block_count=$T/v4"
check_error 4 "no-such-file" "no such file" edit "$T/none" --set-file "a=$T/no-such-file"
check_error 4 "" "a folder" edit "$T/none" --set-file "a=$T"
check_error 2 "expected KEY=FILE" "no file" edit "$T/none" --set-file "a"
check_error 2 "stdin can be read only once" "stdin twice" sh -c "organ-keys - --set-file a=- --output $T/none < $VERSE"
check "a text that looks like a file" edit "$T/a.gguf" --set a=str:@f.txt
if grep -q "use --set-file a=f.txt" "$T/err"; then ok; else bad "no note of --set-file: $(cat "$T/err")"; fi

# Alignment is the plan's business: the data move, and come back.
check "another alignment" edit "$T/a.gguf" --set general.alignment=u32:4096
check "it is a model" organ-extract "$T/a.gguf" --list
check "and back" organ-keys "$T/a.gguf" --delete general.alignment --output "$T/b.gguf" --force
check_same "$T/b.gguf" $VERSE "another alignment and back"
for bad in u32:0 u32:48 str:32 u64:32 u32:2147483648; do
    check_exit 3 "alignment $bad" edit "$T/none" --set general.alignment=$bad
done

# Edits that are refused before anything is written.
for k in split.no split.count split.tensors.count; do
    check_error 2 "numbers the shards" "set $k" edit "$T/none" --set $k=u16:1
    check_error 2 "numbers the shards" "rename to $k" edit "$T/none" --rename general.name=$k
    check_error 2 "numbers the shards" "delete $k" organ-keys $G/x-00001-of-00003.gguf --delete $k --output "$T/none"
    check_error 2 "numbers the shards" "delete $k, escaped" organ-keys $G/x-00001-of-00003.gguf \
        --delete "$(echo $k | sed 's/\./\\x2e/g')" --output "$T/none-00001-of-00003.gguf"
    check_absent "$T/none-00001-of-00003.gguf" "delete $k, escaped"
    check_error 2 "numbers the shards" "$k from a file" edit "$T/none" --set-file $k=README.md
done
check_error 1 "there is no key" "delete an absent key" edit "$T/none" --delete general.nope
check_error 1 "there is no key" "rename an absent key" edit "$T/none" --rename general.nope=a
check_error 2 "the key 'general.name' already exists" "rename onto another" edit "$T/none" \
    --rename general.description=general.name
check_error 2 "expected OLD=NEW" "half a rename" edit "$T/none" --rename general.name=
check_error 2 "no value is given" "an empty value" edit "$T/none" --set general.name=
check_error 2 "does not fit" "too large" edit "$T/none" --set llama.block_count=u8:256
check_error 2 "KEY=" "no key" edit "$T/none" --set =u8:1
check_error 2 "--delete needs --output or --in-place" "nowhere to go" organ-keys $VERSE --delete general.name
check_error 2 "not both" "two ways to go" organ-keys $VERSE --delete general.name --in-place --output "$T/none"
check_error 2 "nothing to change" "nothing to do" organ-keys $VERSE --output "$T/none"
check_error 2 "patterns cannot be combined" "an edit and a pattern" edit "$T/none" --delete general.name 'a*'
check_error 2 "takes no edits" "get and set" edit "$T/none" --get general.name --delete general.name
check_error 2 "takes a model" "recover and more" organ-keys $VERSE --recover --get general.name
check_error 2 "no model" "no model" organ-keys
check_absent "$T/none" "after refused edits"
cp $VERSE "$T/a.gguf"
check_error 2 "already exists" "an existing output" organ-keys $VERSE --delete general.name --output "$T/a.gguf"
check_same "$T/a.gguf" $VERSE "an existing output"
if [ -w /dev/full ]; then
    check_exit 4 "a full stdout" sh -c "organ-keys $VERSE > /dev/full"
    check_exit 4 "a full stdout, --get" sh -c "organ-keys $VERSE --get general.name > /dev/full"
    check_exit 4 "a full stdout, a model" sh -c "organ-keys $VERSE --delete general.name --output - > /dev/full"
fi

# ---- shards and directories ------------------------------------------------------
for i in 1 2 3; do
    mkdir "$T/set$i"
    check "a set, by shard $i" organ-keys $G/x-0000$i-of-00003.gguf --set general.name=str:other \
        --output "$T/set$i/y-00002-of-00003.gguf"
    check_same_dir "$T/set1" "$T/set$i" "any shard's name"
done
check_same "$T/set1/y-00003-of-00003.gguf" $G/x-00003-of-00003.gguf "other shards stay"
check "a set and back" organ-keys "$T/set1/y-00001-of-00003.gguf" --set general.name=sharded \
    --output "$T/set2/x-00001-of-00003.gguf"
for i in 1 2 3; do check_same "$T/set2/x-0000$i-of-00003.gguf" $G/x-0000$i-of-00003.gguf "shard $i and back"; done
check_error 2 "one of 4 shards, but the model has 3" "another number of shards" organ-keys $G/x-00001-of-00003.gguf \
    --delete general.name --output "$T/y-00001-of-00004.gguf"
check "shards into one file" organ-keys $G/x-00002-of-00003.gguf --set general.name=other --output "$T/one.gguf"
organ-extract -q $G/x-00001-of-00003.gguf --output "$T/xdir"
organ-assemble "$T/xdir" --set-kv general.name=other --output "$T/two.gguf"
check_same "$T/one.gguf" "$T/two.gguf" "shards into one file, as organ-assemble does"
check "a set from a directory" organ-keys "$T/xdir" --set general.name=other --output "$T/set3/z-00001-of-00003.gguf"
for i in 1 2 3; do check_same "$T/set3/z-0000$i-of-00003.gguf" "$T/set1/y-0000$i-of-00003.gguf" \
    "shard $i of a directory"; done
check "a file from a directory" organ-keys "$T/dir" --set general.name=x --output "$T/b.gguf" --force
edit "$T/c.gguf" --set general.name=x
check_same "$T/b.gguf" "$T/c.gguf" "a file from a directory"
check_error 2 "inside the organ directory" "into the directory" organ-keys "$T/dir" --delete general.name \
    --output "$T/dir/organs/x.bin"

# ---- in place --------------------------------------------------------------------
cp $VERSE "$T/m.gguf"
check "in place" organ-keys "$T/m.gguf" --set general.name=lab-versE --set llama.block_count=5 --in-place
edit "$T/c.gguf" --set general.name=lab-versE --set llama.block_count=5
check_same "$T/m.gguf" "$T/c.gguf" "in place and a new file"
check_absent "$T/m.gguf.keys-undo" "the journal"
cp $G/align-4096.gguf "$T/m.gguf"
check "a key more in place" organ-keys "$T/m.gguf" --set zz.extra=str:some --in-place
organ-keys $G/align-4096.gguf --set zz.extra=str:some --output "$T/c.gguf" --force
check_same "$T/m.gguf" "$T/c.gguf" "a key more in place"
check "nothing to change" organ-keys "$T/m.gguf" --set zz.extra=str:some --in-place
if grep -q "nothing changed" "$T/err"; then ok; else bad "nothing to change: $(cat "$T/err")"; fi
for f in $G/*.gguf; do
    case $f in */big-endian* | */v1-by* | */x-0*) continue ;; esac
    cp "$f" "$T/m.gguf"
    if organ-keys "$T/m.gguf" --set zz=u8:1 --in-place 2> "$T/err"; then
        organ-keys "$f" --set zz=u8:1 --output "$T/c.gguf" --force
        check_same "$T/m.gguf" "$T/c.gguf" "$f in place"
    else
        check_same "$T/m.gguf" "$f" "$f refused in place"
        if grep -q -e "--output" "$T/err"; then ok; else bad "$f: $(cat "$T/err")"; fi
    fi
done
cp $VERSE "$T/m.gguf"
check_error 1 "--output $T/m-new.gguf" "no room" organ-keys "$T/m.gguf" \
    --set general.name=str:a-name-that-is-longer-than-the-padding-is --in-place
check_error 1 "general.alignment would be 64" "alignment in place" organ-keys "$T/m.gguf" \
    --set general.alignment=u32:64 --in-place
check_same "$T/m.gguf" $VERSE "refused in place"
mkdir "$T/s" && cp $G/x-0000* "$T/s"
check "shards in place, by the third" organ-keys "$T/s/x-00003-of-00003.gguf" --set general.name=Sharded --in-place
check_text "$(organ-keys "$T/s/x-00002-of-00003.gguf" --get general.name)" Sharded "shards in place"
for i in 2 3; do check_same "$T/s/x-0000$i-of-00003.gguf" $G/x-0000$i-of-00003.gguf "shard $i in place"; done
cat $G/x-0000?-of-00003.gguf > "$T/cat.gguf"
check "concatenated shards in place" organ-keys "$T/cat.gguf" --set general.name=Sharded --in-place
cat "$T"/s/x-0000?-of-00003.gguf > "$T/want"
check_same "$T/cat.gguf" "$T/want" "concatenated shards in place"
check "concatenated shards on a pipe" sh -c \
    "organ-keys -q - --set general.name=other --output $T/a.gguf --force < $T/want"
check_same "$T/a.gguf" "$T/one.gguf" "concatenated shards on a pipe"
check_error 2 "manifest.json" "a directory in place" organ-keys "$T/dir" --delete general.name --in-place
check_error 2 "in place" "a pipe in place" sh -c "organ-keys - --delete general.name --in-place < $VERSE"
ln -s m.gguf "$T/link.gguf"
check "a link in place" organ-keys "$T/link.gguf" --set general.name=lab-versE --in-place --follow
if [ -L "$T/link.gguf" ] && [ "$(organ-keys "$T/m.gguf" --get general.name)" = lab-versE ]; then ok; else \
    bad "a link in place"; fi
if [ "$(id -u)" != 0 ]; then
    chmod 400 "$T/m.gguf"
    check_error 4 "writing" "a file that may not be written" organ-keys "$T/m.gguf" --set general.name=lab-verse \
        --in-place
    chmod 600 "$T/m.gguf"
fi

# ---- the same in organ-assemble and organ-transplant ------------------------------
printf 'a\0b\n' > "$T/value"
for how in "organ-assemble $T/dir" "organ-transplant --base $VERSE --donor $VERSE --type norm"; do
    check "${how%% *}: a file" $how --set-kv "general.name=str:first" --set-kv-file "general.name=$T/value" \
        --output "$T/a.gguf" --force
    organ-keys "$T/a.gguf" --get general.name > "$T/out"
    check_same "$T/out" "$T/value" "${how%% *}: a key from a file"
    check "${how%% *}: no file" $how --set-kv general.name=str:@value --output "$T/a.gguf" --force
    if grep -q -e "use --set-kv-file general.name=value" "$T/err"; then ok; else bad "${how%% *}: no note: $(cat \
        "$T/err")"; fi
    check_error 2 "expected KEY=FILE" "${how%% *}: half of it" $how --set-kv-file general.name --output "$T/none"
    check_error 2 "of type u32" "${how%% *}: a number" $how --set-kv-file "llama.block_count=$T/value" \
        --output "$T/none"
    check_error 4 "no-such" "${how%% *}: no such file" $how --set-kv-file general.name=no-such --output "$T/none"
    check_absent "$T/none" "${how%% *}: after refused edits"
done
check_error 2 "keys cannot be changed" "in place" organ-transplant --base "$T/m.gguf" --donor $VERSE --type norm \
    --in-place --no-undo --set-kv-file "general.name=$T/value"

# A journal that cannot be used blocks every tool, with what to do. (tests/unit/keys/t_keys.c
# kills runs at every system call.)
echo nonsense > "$T/m.gguf.keys-undo"
check_error 3 "organ-keys --recover" "a journal" organ-extract "$T/m.gguf" --list
check_error 3 "organ-keys --recover" "a journal, through a link" organ-extract "$T/link.gguf" --list
check_error 3 "remove this file" "a journal that is none" organ-keys "$T/m.gguf"
check_error 3 "remove this file" "to recover" organ-keys "$T/m.gguf" --recover
rm "$T/m.gguf.keys-undo"
check "nothing to recover" organ-keys "$T/m.gguf" --recover
if grep -q "nothing to recover" "$T/err"; then ok; else bad "nothing to recover: $(cat "$T/err")"; fi
check_text "$(cd "$T" && ls -a | grep -c tmp)" 0 "nothing is left behind"
finish
