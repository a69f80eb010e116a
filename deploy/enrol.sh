#!/bin/sh
# Before a node starts: a fresh certificate for it, and the keys of its clients. The image has it as `weft-enrol`.
#
#   weft-enrol CA KEYS HOST...
#
# CA is a directory with the files of `weft ca init` (the root's key is not needed), KEYS one with keys.json and perhaps
# trust.json; both are only read. HOSTs are the names that clients know the node by. Who it is and where its data are
# say WEFT_NODE_ID and WEFT_NODE_DATA, as for `weft up`. The node itself needs no CA's key: run this beside it.
set -eu
umask 077
ca=$1 keys=$2
shift 2

# Mounted secrets can be read by a group, and weft uses none that others can read: so a copy that nobody else can.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/ca"
cp "$ca"/* "$copy/ca"
for host; do
    shift
    set -- "$@" --host "$host"
done
weft ca issue "$WEFT_NODE_ID" --data "$copy" --to "$WEFT_NODE_DATA/tls" "$@"

for file in "$keys"/*; do
    [ -e "$file" ] || continue
    fresh="$WEFT_NODE_DATA/.${file##*/}.new"
    cp "$file" "$fresh"
    chmod 0600 "$fresh"
    mv "$fresh" "$WEFT_NODE_DATA/${file##*/}"
done

# A volume that was mounted for a group may have opened our files to it.
find "$WEFT_NODE_DATA" -user "$(id -u)" -perm /077 -exec chmod go-rwx {} +
