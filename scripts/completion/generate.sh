#!/bin/sh
# generate.sh zsh|fish - prints the completion for another shell than bash, made from the tables in
# scripts/completion/organ. Used by `make`.
set -eu
tables=$(dirname "$0")/organ
case ${1-} in zsh | fish) shell=$1 ;; *) echo "usage: scripts/completion/generate.sh zsh|fish" >&2; exit 2 ;; esac
eval "$(sed -n -e '/^_organ_options() {/,/^}/p' -e '/^_organ_values() {/,/^}/p' "$tables")"
tools=$(sed -n '/^complete -F _organ /,$p' "$tables" | tr -d '\\' | sed 's/^complete -F _organ//')

# An option of zsh's _arguments, in single quotes: a name, what its value is, and how to complete it.
zsh_option() { # NAME KIND-OR-FLAG
    case $1 in ?) name=-$1 more='+' ;; *) name=--$1 more='=' ;; esac
    case $2 in
    flag) printf " '%s'" "$name"; return ;;
    '') action=' ' ;;
    dir) action='_files -/' ;;
    file) action='_files' ;;
    model) action='_files -g "*.(gguf|bin)"' ;;
    class) action="_values -s , class $(_organ_values class)" ;;
    *) action="($(_organ_values "$2" | sed 's/:/\\:/g'))" ;;
    esac
    printf " '%s%s:%s:%s'" "$name" "$more" "${2:-value}" "$action"
}
fish_option() { # TOOL NAME KIND-OR-FLAG
    case $2 in ?) name="-s $2" ;; *) name="-l $2" ;; esac
    case $3 in
    flag) value='' ;;
    '') value=' -x' ;;
    dir) value=" -x -a '(__fish_complete_directories)'" ;;
    file) value=' -r -F' ;;
    model) value=" -x -a '(__fish_complete_suffix .gguf)'" ;;
    class) value=" -x -a '(__fish_append , $(_organ_values class))'" ;;
    *) value=" -x -a '$(_organ_values "$3")'" ;;
    esac
    echo "complete -c $1 $name$value"
}

made="# Made by scripts/completion/generate.sh."
if [ $shell = fish ]; then
    echo "$made"
    for tool in $tools; do
        for spec in $(_organ_options "$tool"); do
            case $spec in *=*) fish_option "$tool" "${spec%%=*}" "${spec#*=}" ;; *) fish_option "$tool" "$spec" flag ;; esac
        done
    done
    echo "complete -c organ-fleet -n __fish_is_first_arg -a 'dissect measure pipeline'"
    exit 0
fi
printf '#compdef %s\n%s\ncase $service in\n' "$(echo $tools)" "$made" # zsh wants #compdef first
for tool in $tools; do
    printf '%s) _arguments' "$tool"
    for spec in $(_organ_options "$tool"); do
        case $spec in *=*) zsh_option "${spec%%=*}" "${spec#*=}" ;; *) zsh_option "$spec" flag ;; esac
    done
    case $tool in
    organ-fleet) echo " '1:step:(dissect measure pipeline)' '*:model:_files -g \"*.(gguf|bin)\"' ;;" ;;
    *) echo " '*:model:_files -g \"*.(gguf|bin)\"' ;;" ;;
    esac
done
echo 'esac'
