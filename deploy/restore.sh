#!/bin/sh
# Make a snapshot (dump.rdb), read from standard input, the content of a STOPPED store:
#
#   restore.sh DATA_FOLDER < backup.rdb
#
# A server with `appendonly yes` starts from its append-only folder and ignores dump.rdb, so copying the snapshot back
# would restore nothing. The append-only format may begin with a snapshot as its base file: that is what is made here.
# What was there before is kept beside it, as appendonlydir.before-<time>. A snapshot that is cut off or damaged is refused,
# where the store's own program that checks them is there (its image has it): the store would not start on it.
set -eu

data=${1:?usage: restore.sh DATA_FOLDER < backup.rdb}
new=$data/appendonlydir.new

refuse() {
    rm -rf "$new"
    echo "restore: standard input is $1; nothing was changed" >&2
    exit 1
}

rm -rf "$new"
mkdir -m 0700 "$new"
cat > "$new/appendonly.aof.1.base.rdb"
case $(head -c 5 "$new/appendonly.aof.1.base.rdb") in
    REDIS | VALKE) ;;
    *) refuse "no snapshot" ;;
esac
for check in valkey-check-rdb redis-check-rdb; do
    command -v "$check" > /dev/null || continue
    "$check" "$new/appendonly.aof.1.base.rdb" > /dev/null 2>&1 || refuse "a snapshot that is cut off or damaged"
    break
done
echo "file appendonly.aof.1.base.rdb seq 1 type b" > "$new/appendonly.aof.manifest"

if [ -e "$data/appendonlydir" ]; then
    mv "$data/appendonlydir" "$data/appendonlydir.before-$(date +%Y%m%d-%H%M%S)"
fi
mv "$new" "$data/appendonlydir"
echo "restore: done; start the store" >&2
