#!/bin/sh
# shellcheck disable=SC1091,SC2015
# packages.sh - source archives are the same bytes again, and tools of the packages work. The
# packages are made from the objects of this build. Runs only with PACKAGES=1, as it takes some
# seconds; .ci/run sets it.
. "$(dirname "$0")/lib.sh"
dist() { # KIND FOLDER
    (unset MAKEFLAGS && B="$B" SOURCE_DATE_EPOCH=86400 sh scripts/packaging/dist.sh "$1" 1.2 "$2")
}
if [ -z "${PACKAGES:-}" ]; then
    echo "left out: packages (PACKAGES=1)"
    finish
fi
if ! have tar || ! tar --version 2> /dev/null | grep -q GNU || ! have gzip; then
    echo "left out: packages (GNU tar, gzip)"
    finish
fi

check "source archive" dist source "$T/one"
(umask 077 && TZ=Asia/Tokyo LC_ALL=C dist source "$T/two") > "$T/out" 2>&1
check_same "$T/one/organ-suite-1.2.tar.gz" "$T/two/organ-suite-1.2.tar.gz" "a source archive made again"
tar -tvzf "$T/one/organ-suite-1.2.tar.gz" > "$T/list"
check_text "$(grep -v -c ' 0/0 .* 1970-01-02 00:00 organ-suite-1.2/' "$T/list")" 0 \
    "owner, time and folder of each file"
for f in Makefile src/base/io.c scripts/organ-search tests/run.sh docs/man/organ-extract.1 \
    scripts/packaging/debian/rules; do
    grep -q "organ-suite-1.2/$f\$" "$T/list" && ok || bad "$f is not in the archive"
done
check_text "$(grep -c -e '/build/' -e node_modules -e '\.git/' "$T/list")" 0 "nothing that was built"
have sha256sum "packages" || finish
sum=$(sha256sum < "$T/one/organ-suite-1.2.tar.gz")
check_text "$(sed -n 's/^  sha256 "\(.*\)"$/\1/p' "$T/one/organ-suite.rb")" "${sum%% *}" "Homebrew formula: the sum"
check_exit 1 "an unknown package" dist rpm "$T/one"

# What was built for this test is dynamic, but the archive is made in the same way.
if CC=cc dist static "$T/one" > "$T/out" 2> "$T/err"; then ok; else bad "archive of tools: $(tail -n 3 "$T/err")"; fi
mkdir "$T/static"
tar -xzf "$T"/one/organ-suite-1.2-linux-*.tar.gz -C "$T/static" --strip-components=1
check "a tool of the archive" "$T/static/bin/organ-extract" --list "$LAB/lab-verse-q4_k_m.gguf"
check "a script of the archive" env -u ORGAN_BIN PATH=/usr/bin:/bin "$T/static/bin/organ-search" --version
check_text "$(ls "$T/static")" "LICENSE
README.md
bin
share" "the archive of tools"

if have dpkg-buildpackage && have dpkg-deb && have dpkg && [ -z "${SANITIZED:-}" ]; then
    check "Debian package" dist deb "$T/one"
    deb=$(echo "$T"/one/organ-suite_1.2_*.deb)
    check_text "$(dpkg-deb -f "$deb" Package Version | tr '\n' ' ')" "Package: organ-suite Version: 1.2 " \
        "Debian package: its fields"
    mkdir -p "$T/root/var/lib/dpkg/updates" "$T/root/var/lib/dpkg/info"
    : > "$T/root/var/lib/dpkg/status"
    # Installed for real, if this can be done without root; the packages it depends on are not in this root.
    if have fakeroot && fakeroot dpkg --root="$T/root" --log=/dev/null \
        --force-depends --force-not-root --force-script-chrootless --force-bad-path \
        -i "$deb" > "$T/out" 2>&1; then
        check_text "$(dpkg --root="$T/root" -s organ-suite | sed -n 's/^Status: //p')" "install ok installed" \
            "Debian package: installed"
    else dpkg-deb -x "$deb" "$T/root"
    fi
    check "Debian package: a tool" "$T/root/usr/bin/organ-measure" "$LAB/lab-verse-q4_k_m.gguf" --summary
    check "Debian package: a script" env -u ORGAN_BIN PATH=/usr/bin:/bin "$T/root/usr/bin/organ-fleet" --version
    for f in usr/share/man/man1/organ-merge.1.gz usr/share/doc/organ-suite/copyright \
        usr/share/doc/organ-suite/changelog.gz \
        usr/share/fish/vendor_completions.d/organ-merge.fish usr/include/organ/organ.h; do
        [ -s "$T/root/$f" ] && ok || bad "Debian package: no $f"
    done
    [ -s "$(find "$T/root/usr/lib" -name libgguf.a)" ] && ok || bad "Debian package: no libgguf.a"
fi
finish
