#!/usr/bin/env bash
# oci.sh PACKAGES: the image runs from its unpacked root: read-only, as its user, without capabilities.
set -u
packages=$1 work=/mnt
here=$(dirname "${BASH_SOURCE[0]}")
mount -t tmpfs tmpfs $work
. "$here/ask.sh"
mkdir "$work/layout" && tar -C "$work/layout" -xf "$packages"/holdfast-*-oci-*.tar || exit 1
umoci unpack --image "$work/layout:latest" "$work/bundle" >/dev/null 2>&1 || exit 1
python3 - "$work" <<'PYTHON' || exit 1
import json, pathlib, sys
layout = pathlib.Path(sys.argv[1]) / "layout"
blob = lambda digest: json.loads((layout / "blobs/sha256" / digest.split(":")[1]).read_text())
manifests = json.loads((layout / "index.json").read_text())["manifests"]
config = blob(blob(manifests[0]["digest"])["config"]["digest"])["config"]
assert config["User"] == "65532:65532", config
assert config["Healthcheck"]["Test"][1] == "/usr/bin/holdfast", config
assert "/var/lib/holdfast" in config["Volumes"], config
PYTHON
root=$work/bundle/rootfs
mount --bind "$root" "$root" && mount -o remount,bind,ro "$root" && mount -t proc proc "$root/proc" || exit 75
mount --rbind /dev "$root/dev" && mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs -o uid=65532,gid=65532,mode=700 tmpfs "$root/var/lib/holdfast"
HOLDFAST_STATE=/var/lib/holdfast chroot --userspec=65532:65532 --groups= "$root" /usr/bin/holdfast serve \
  --http 127.0.0.1:8080 --model demo=/usr/share/holdfast/demo/holdfast-demo-Q8_0.gguf >"$work/oci.log" 2>&1 &
ask || { cat "$work/oci.log"; exit 1; }
HOLDFAST_STATE=/var/lib/holdfast chroot --userspec=65532:65532 --groups= "$root" /usr/bin/holdfast status --quiet >/dev/null ||
  { echo "the health check fails"; exit 1; }
