#!/bin/sh
# Make a fleet's secrets in a directory (deploy/secrets unless told); what is there already is kept, unless it is empty.
#
# Only its owner can enter the directory. The files in it can be read by all: Compose shows them to containers
# with the owner that they have here, and those run as other users.
set -eu
directory=${1:-$(dirname "$0")/secrets}
broker=${2:-redis:6379} # where workers find the broker: HOST:PORT
umask 077
mkdir -p "$directory"
chmod 700 "$directory"

random() { od -A n -N 32 -t x1 /dev/urandom | tr -d ' \n'; }
keep() {
    if [ -s "$directory/$1" ]; then
        cat >/dev/null
        return
    fi
    cat >"$directory/$1.new"
    chmod 444 "$directory/$1.new"
    mv "$directory/$1.new" "$directory/$1"
    echo "made $directory/$1"
}

random | keep redis_password
password=$(cat "$directory/redis_password")
digest=$(printf %s "$password" | sha256sum | cut -d ' ' -f 1)
# What submitters, workers, beat and Flower need, and no more: no FLUSHALL, no CONFIG, no SHUTDOWN.
keep redis_users <<END
user default off resetpass resetkeys resetchannels -@all
user farm on #$digest ~* &* +@all -@admin -@dangerous +info +client
END
printf 'redis://farm:%s@%s/0\n' "$password" "$broker" | keep broker_url
random | keep signing_key
printf 'farm:%s\n' "$(random)" | keep flower_auth
# The keys of your agents; an empty one is no key, and can be made good later.
printf %s "${ANTHROPIC_API_KEY:-}" | keep anthropic_api_key
