#!/bin/sh
# install.sh - put the pinned engine into tests/engine/node_modules.
# CPU only, prebuilt: the GPU builds are optional packages and left out, install
# scripts (which would download or build) are not run. Nothing is done when the
# installed tree was made from the present lock file.
set -eu
cd "$(dirname "$0")"

stamp=node_modules/.installed-lock
if cmp -s package-lock.json "$stamp"; then
    exit 0
fi
for tool in node npm; do
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "install.sh: $tool not found: the engine tests need Node.js 20 or later" >&2
        exit 1
    fi
done
# Not `npm ci`: it refuses the lock file where the registry lacks one of the
# packages for other systems, which are left out anyway. --no-save keeps the lock
# file as it is; its versions and checksums are binding here too.
rm -rf node_modules
npm install --no-save --omit=optional --omit=dev --ignore-scripts --no-audit --no-fund \
    --loglevel=error >&2
# Last, so that an interrupted install is not taken for a complete one.
cp package-lock.json "$stamp"
