# rclone.sh - part of run.sh: the commands of docs/clusters.md about object storage, as they are
# written there, with a WebDAV server of rclone as the remote.
# shellcheck disable=SC2034,SC2154 # variables of run.sh

# The models of the page: one, and another in three shards.
start_rclone() {
    free_port
    mkdir -p "$T/served/bucket/sub" "$T/work"
    cp "$T/models/one.gguf" "$T/served/bucket/model.gguf"
    cp "$T/models/two.gguf" "$T/served/bucket/sub/other.gguf"
    for i in 1 2 3; do cp "$D/gguf/x-0000$i-of-00003.gguf" "$T/served/bucket/model-0000$i-of-00003.gguf"; done
    printf '[remote]\ntype = webdav\nurl = http://127.0.0.1:%s\nvendor = other\n' "$port" > "$T/rclone.conf"
    RCLONE_CONFIG=$T/rclone.conf
    export RCLONE_CONFIG
    rclone serve webdav "$T/served" --addr "127.0.0.1:$port" > "$T/rclone.log" 2>&1 &
    echo $! > "$T/rclone.pid"
    until_true 20 rclone lsf remote:bucket
}
# The first command of the page that has TEXT. It ends before the next line that is not indented more.
command_with() {
    awk -v text="$1" '
        { line = /^    / ? substr($0, 5) : "" }
        line !~ /^ / && !(all ~ /[\\|]\n$/) { if (index(all, text)) exit; all = "" }
        { all = all line "\n" }
        END { if (index(all, text)) printf "%s", all }' docs/clusters.md
}
run_command() { # WHAT TEXT: in the folder work
    command_with "$2" > "$T/command"
    check "rclone: the page has '$2'" test -s "$T/command"
    (cd "$T/work" && sh "$T/command") > "$T/result" 2> "$T/err" || {
        bad "rclone: $1: $(head -n 1 "$T/err")"
        return
    }
    ok
}

part=rclone
if need rclone; then
    if start_rclone; then
        run_command "a model is checked" '| organ-check -'
        run_command "a model is converted from the remote to the remote" 'organ-assemble - --dtype q4_k_m'
        organ-assemble -q "$T/models/one.gguf" --dtype q4_k_m --output "$T/q4.gguf"
        check "rclone: to the bit" cmp "$T/q4.gguf" "$T/served/bucket/model-q4_k_m.gguf"
        run_command "shards are one model" 'model-0000$i-of-00003.gguf; done'
        organ-measure "$D/gguf/x-00001-of-00003.gguf" > "$T/shards.tsv"
        check "rclone: the rows of the shards" cmp "$T/shards.tsv" "$T/result"
        if [ $slurm_runs = yes ]; then
            run_command "the models of a bucket" 'rclone lsf -R'
            check_text "$(sort "$T/work/list" | tr '\n' ' ')" "model-q4_k_m.gguf model.gguf sub/other.gguf " \
                "rclone: the list of models"
            run_command "an array job over them" 'sbatch --array'
            check "rclone: the array has ended" until_true 60 test -s "$T/work/sub_other.gguf.tsv"
            check "rclone: the rows of a model of the bucket" until_true 20 cmp \
                "$T/direct/two.tsv" "$T/work/sub_other.gguf.tsv"
        else
            skip "rclone: an array job, without Slurm"
        fi
    else
        bad "rclone does not serve"
        tail -n 5 "$T/rclone.log" "$T/until"
    fi
fi
