#!/usr/bin/env bash
# tar.sh PACKAGES: the tarball runs from a folder of another name, without this machine's copies of the
# libraries that it brings, and wants nothing that another system may not have (ops/packaging/elf-check).
set -u
packages=$1 work=/mnt
here=$(dirname "${BASH_SOURCE[0]}")
mount -t tmpfs tmpfs $work
. "$here/ask.sh"
mkdir "$work/unpacked" && tar -C "$work/unpacked" -xzf "$packages"/holdfast-*-linux-*.tar.gz || exit 1
"$here/../elf-check" "$work"/unpacked/* || exit 1
mv "$work"/unpacked/* "$work/somewhere else"
home="$work/somewhere else"
# Libraries that it brings are its own: these, which no tool here needs, cannot be read on the machine.
for library in "$home"/lib/holdfast/lib{zmq,spdlog,fmt,prometheus-cpp-core,sodium,utf8proc}.so*; do
  for there in /usr/lib/*-linux-gnu/"$(basename "$library")"; do
    if [ -e "$there" ]; then mount --bind /dev/null "$(realpath "$there")"; fi
  done
done
"$home/bin/holdfast" serve --state "$work/tar-state" --quiet \
  --model demo="$home/share/holdfast/demo/holdfast-demo-Q8_0.gguf" >"$work/tar.log" 2>&1 &
ask || { cat "$work/tar.log"; exit 1; }
python3 -c 'import json, sys; assert len(json.load(open(sys.argv[1]))["packages"]) > 5' "$home/SBOM.spdx.json"
