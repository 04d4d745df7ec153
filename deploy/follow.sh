#!/bin/sh
# Start a store that Sentinel may tell whom to follow (deploy/docker-compose.sentinel.yml):
#
#   follow.sh DATA_FOLDER [OPTION...]      each option a line of its configuration, for its first start only
#
# Whom it follows is written into a file on its volume, which begins with the one that all stores read: after a restart
# of everything, a former master would otherwise be a master again, and the others would take over what it holds.
set -eu

data=${1:?usage: follow.sh DATA_FOLDER [OPTION...]}
shift

if [ ! -e "$data/valkey.conf" ]; then
    # A store whose writes have reached no replica for ten seconds takes no more of them.
    printf '%s\n' 'include /etc/valkey/valkey.conf' "dir $data" 'min-replicas-to-write 1' 'min-replicas-max-lag 10' \
        "$@" > "$data/valkey.conf.new"
    mv "$data/valkey.conf.new" "$data/valkey.conf"
fi
exec valkey-server "$data/valkey.conf"
