#!/bin/sh
# Brings keys into the Secrets of a release and back, beside make-keys.sh of the same pod, which has the
# database and no token; this has the token and no database. They talk by files of one folder:
#   MANIFEST              Secrets to be applied; removed when they are
#   MANIFEST.entries      what the Secrets have, a line for each entry: SECRET ENTRY BASE64; removed by
#                         whoever wants it anew
#   SECRETS, NAMESPACE, BUSYBOX as in make-keys.sh
set -eu
umask 007
run() { ${BUSYBOX:+"$BUSYBOX"} "$@"; }
say() { printf 'publish-keys: %s\n' "$*" >&2; }
entries=$MANIFEST.entries

# Server-side: existing Secrets get these entries and lose those that this manager had set before.
publish() {
  kubectl apply --server-side --force-conflicts --field-manager=holdfast-keys --cache-dir=/tmp/kubectl \
    -f "$MANIFEST" || return 1
  run rm -f "$entries" "$MANIFEST"
}
fetch() {
  : >"$entries.new"
  for secret in $SECRETS; do
    kubectl get secret "$secret" --namespace "$NAMESPACE" --cache-dir=/tmp/kubectl -o \
      "go-template={{range \$entry, \$text := .data}}$secret {{\$entry}} {{\$text}}{{\"\\n\"}}{{end}}" \
      >>"$entries.new" || return 1
  done
  run mv "$entries.new" "$entries"
}

while :; do
  [ ! -s "$MANIFEST" ] || publish || say "the Secrets were not written; again in a second"
  [ -e "$entries" ] || fetch || say "the Secrets were not read; again in a second"
  run sleep 1
done
