#!/bin/sh
# dist.sh source|systems|static|deb VERSION FOLDER - makes a package of this tree in FOLDER, for `make dist`,
# `make dist-static` and `make deb`:
#
#   source  organ-suite-VERSION.tar.gz: the files that git knows, or all but the build folder
#           and a Homebrew formula for it; URL=ADDRESS is the folder where it will be published
#   systems organ-suite-VERSION-SYSTEM.tar.gz for Linux (musl), and macOS, each for two kinds of processor, by
#           zig (TARGETS="aarch64-macos ..."), and SHA256SUMS of all archives in FOLDER
#   static  organ-suite-VERSION-SYSTEM.tar.gz: tools linked statically with musl, ready to use
#   deb     organ-suite_VERSION_ARCHITECTURE.deb, by dpkg-buildpackage
#
# The same sources give the same bytes: names are sorted, owners are root, and all times are
# SOURCE_DATE_EPOCH, which is by default the time of the last commit.
#
#   B=FOLDER  objects that are already built (default: build everything again)
set -eu
kind=$1 version=$2 folder=$3
case ${B:-/} in /*) ;; *) B=$(pwd)/$B ;; esac
name=organ-suite-$version
umask 022
LC_ALL=C
export LC_ALL
top=$(pwd)
fail() {
    echo "dist.sh: $*" >&2
    exit 1
}
in_git() { [ "$(git rev-parse --show-toplevel 2> /dev/null)" = "$top" ]; }
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(in_git && git log -1 --format=%ct || stat -c %Y docs/NEWS.md)
fi
export SOURCE_DATE_EPOCH
tar --version 2> /dev/null | grep -q GNU || fail "this needs GNU tar"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/dist.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

pack() { # ARCHIVE: the names of its files, relative to the present folder, are on stdin
    tar --create --file=- --no-recursion --sort=name --format=ustar --owner=0 --group=0 --numeric-owner \
        --mode=u+w,go+r-w,a+X --mtime="@$SOURCE_DATE_EPOCH" --transform="s|^\./||;s|^|$name/|S" --null --files-from=- > "$work/tar"
    gzip -9n < "$work/tar" > "$1.tmp"
    mv "$1.tmp" "$1"
    echo "$1"
}
sources() {
    if in_git; then git ls-files -z
    else find . -name build -prune -o -name node_modules -prune -o \( -type f -o -type l \) -print0
    fi
}
unpacked_sources() { # FOLDER
    mkdir "$1"
    sources | tar --create --file=- --mtime="@$SOURCE_DATE_EPOCH" --null --files-from=- | tar --extract --file=- -C "$1"
}

case $kind in
source)
    sources | pack "$folder/$name.tar.gz"
    sum=$(sha256sum < "$folder/$name.tar.gz")
    sed "s|@URL@|${URL:-https://example.org}/$name.tar.gz|; s|@SHA256@|${sum%% *}|" \
        scripts/packaging/organ-suite.rb.in > "$folder/organ-suite.rb"
    ;;
systems)
    for target in ${TARGETS:-x86_64-linux-musl aarch64-linux-musl aarch64-macos x86_64-macos}; do
        # Not in the folder of `make cross`, whose objects may have been made with other CFLAGS.
        GOALS=install OBJECTS=build/dist/objects DESTDIR="$work/$target" PREFIX=/usr/local sh tests/cross/build.sh "$target" > "$work/log" 2>&1 || {
            cat "build/dist/objects/$target.log" "$work/log" 2> /dev/null | tail -n 20 >&2
            fail "the build for $target failed"
        }
        cd "$work/$target/usr/local"
        rm -r lib include # the library would need this compiler
        cp "$top/LICENSE" "$top/README.md" .
        case $target in *macos) system=macos ;; *) system=linux ;; esac
        (name=$name-$system-${target%%-*} && find . \( -type f -o -type l \) -print0 | pack "$folder/$name.tar.gz")
        cd "$top"
    done
    cd "$folder"
    sha256sum organ-suite-"$version"*.tar.gz > SHA256SUMS
    ;;
static)
    cc=${CC:-musl-gcc}
    command -v "$cc" > /dev/null || fail "$cc is not installed (the Debian package is musl-tools)"
    system=$("$cc" -dumpmachine | sed 's/-.*//')
    # The built files are packed unchanged.
    set --
    b=${B:-}
    [ ! -f "$b/obj/flags" ] || set -- -o "${b#"$top"/}/flags.mk" -o "${b#"$top"/}/obj/flags"
    ${MAKE:-make} "$@" B="${B:-build/static}" CC="$cc" LDFLAGS=-static DESTDIR="$work/root" PREFIX=/usr/local install > "$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        fail "the build with $cc failed"
    }
    strip "$work"/root/usr/local/bin/organ-* 2> /dev/null || true # some are scripts
    cd "$work/root/usr/local"
    rm -r lib include # the library would need this compiler
    cp "$top/LICENSE" "$top/README.md" .
    name=$name-linux-$system
    find . \( -type f -o -type l \) -print0 | pack "$folder/$name.tar.gz"
    ;;
deb)
    command -v dpkg-buildpackage > /dev/null || fail "dpkg-buildpackage is not installed (the Debian package is dpkg-dev)"
    unpacked_sources "$work/$name"
    cd "$work/$name"
    cp -R scripts/packaging/debian debian
    printf 'organ-suite (%s) unstable; urgency=medium\n\n  * See docs/NEWS.md.\n\n -- %s  %s\n' "$version" \
        "$(sed -n 's/^Maintainer: //p' debian/control)" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" > debian/changelog
    chmod +x debian/rules
    [ -z "${B:-}" ] || export ORGAN_BUILD="$B"
    # -d: a compiler that is installed without its package is good enough.
    dpkg-buildpackage -b -us -uc -d > "$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        fail "dpkg-buildpackage failed"
    }
    for package in "$work"/*.deb; do
        mv "$package" "$folder/"
        echo "$folder/${package##*/}"
    done
    ;;
*) fail "unknown package '$kind': use source, systems, static or deb" ;;
esac
