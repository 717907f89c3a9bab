#!/bin/sh
# install.sh install|uninstall FOLDER MODE FILE... - copies files to a folder for `make install`, or removes the copies.
# FOLDER begins with the name of a variable (bindir, docdir/docs). FILE:NAME is installed as NAME. The variables and
# DESTDIR are in the environment. In manual pages, scripts and libgguf.pc, paths of the source tree become installed ones.
set -u
here=$(dirname "$0")
action=$1 folder=$2 mode=$3
shift 3
umask 022
DESTDIR=${DESTDIR%/}
eval "to=\$DESTDIR\$${folder%%/*}"
case $folder in */*) to=$to/${folder#*/} ;; esac

if [ "$action" = install ]; then
    mkdir -p "$to" || exit 1
    for file; do
        from=${file%%:*} name=${file##*:}
        case $from in
        docs/man/* | *.pc.in | scripts/organ | scripts/organ-*)
            awk -f "$here/install.awk" "$from" > "$to/${name##*/}" || exit 1 ;;
        *) cp -f "$from" "$to/${name##*/}" || exit 1 ;;
        esac
    done
fi
# From here on, the copies in the folder, not the files that were named.
for file; do
    name=${file##*:}
    set -- "$@" "$to/${name##*/}"
    shift
done
if [ "$action" = install ]; then chmod "$mode" "$@"; exit; fi
rm -f "$@" || exit 1
while [ "$to" != "$DESTDIR" ] && [ -n "$to" ] && rmdir "$to" 2> /dev/null; do to=${to%/*}; done
