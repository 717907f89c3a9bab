#!/bin/sh
# install.sh FOLDER - installs the pinned zig, a compiler for many systems, in FOLDER from npm. Does
# nothing if FOLDER has the version of the present lock file. FOLDER/zig is then the program.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
to=${1:?usage: install.sh FOLDER}
if cmp -s "$here/package-lock.json" "$to/.installed-lock"; then exit 0; fi
command -v npm > /dev/null || { echo "install.sh: npm not found: install Node.js 20 or later" >&2; exit 1; }
rm -rf "$to"
mkdir -p "$to"
cp "$here/package.json" "$here/package-lock.json" "$to"
(cd "$to" && npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error >&2)
for program in "$to"/node_modules/@zigc/*/bin/zig; do
    case $program in */cli/bin/zig) ;; *) ln -s "${program#"$to"/}" "$to/zig" ;; esac
done
# Last, so that an interrupted install is not taken for a complete one.
cp "$here/package-lock.json" "$to/.installed-lock"
