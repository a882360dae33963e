# kew-keep INPUT BRANCH MESSAGE [MAX_BYTES [MAX_FILE [CHECKOUT [GIT_DIR]]]]
#
# Runs in a sealed container (no network, read-only mount, no privileges, room in /tmp) over a checkout whose attempt did
# not pass; on the host only with a GIT_DIR of kew's own that has the checkout's refs and none of its configuration. Puts
# everything that is there into one commit and packs it: on top of HEAD, and of INPUT and BRANCH where HEAD does not contain
# them. Nothing is written to the checkout. Whoever reads the output trusts none of it.
#
# What an agent configured has no say: git works in a repository of its own that borrows the checkout's objects. Left out
# are what is ignored, what kew reserves, what git cannot store and files above MAX_FILE; these are named as `path` lines.
#
# Exit: 0 done, 10 not a repository, 12 took too long, 13 not to be kept, 14 larger than MAX_BYTES, 15 called wrongly.
input=${1:?} branch=${2:?} message=${3:?} max=${4:-268435456} file_max=${5:-104857600} root=${6:-/work}

theirs=$root/.git
refs=${7:-$theirs}
[ -d "$theirs" ] && [ ! -L "$theirs" ] && [ -d "$theirs/objects" ] && [ ! -L "$theirs/objects" ] ||
    fail 10 "the checkout is not a repository any more"

beware "$root"

own=$(mktemp -d) || fail 13 "there is no room to work in"
trap 'cd / && rm -rf "$own"' EXIT
mkdir "$own/objects" "$own/objects/info" "$own/refs" && echo 'ref: refs/heads/none' >"$own/HEAD" ||
    fail 13 "there is no room to work in"
{
    printf '[core]\n\tbare = false\n'
    [ ${#input} -eq 40 ] || printf '\trepositoryFormatVersion = 1\n[extensions]\n\tobjectFormat = sha256\n'
} >"$own/config"
printf '%s\n' "$theirs/objects" >"$own/objects/info/alternates"
# Their files are only read where they are files: a pipe would block, a link could lead anywhere in this container.
plain() {
    [ -f "$1" ] && [ ! -L "$1" ]
}
plain "$theirs/shallow" && head -c 16777216 "$theirs/shallow" >"$own/shallow"

setting core.safecrlf false
setting core.checkStat minimal
setting core.trustctime false
setting core.compression 1
setting advice.addEmbeddedRepo false

# What HEAD and the node's branch name is read by a git that knows their refs, before the one that knows nothing of theirs.
named() {
    for name in HEAD config packed-refs; do
        part=$theirs/$name
        [ ! -e "$part" ] && [ ! -L "$part" ] || plain "$part" || return 1
    done
    [ ! -e "$theirs/commondir" ] && [ ! -L "$theirs/commondir" ] || return 1
    GIT_DIR=$refs within 5 rev-parse --verify --quiet --end-of-options "$1^{commit}" 2>/dev/null
}
head=$(named HEAD) || head=$input
tip=$(named "$branch") || tip=

export GIT_DIR="$own" GIT_WORK_TREE="$root" GIT_INDEX_FILE="$own/index"
cd "$root" || fail 10 "the checkout cannot be entered"
known() {
    within 10 cat-file -e "$1^{commit}" 2>/dev/null
}
known "$input" || fail 13 "the checkout lacks what it started from"
known "$head" || head=$input
[ -z "$tip" ] || known "$tip" || tip=

# Sizes and times of the checkout's own index spare reading files that did not change. It may be anything: a broken one is
# made anew, and a lying one hides only changes of its own maker.
plain "$theirs/index" && head -c 536870912 "$theirs/index" >"$GIT_INDEX_FILE"
within 60 read-tree --reset "$head" >/dev/null 2>&1 || {
    rm -f "$GIT_INDEX_FILE" "$GIT_INDEX_FILE.lock"
    within 60 read-tree "$head" 2>/dev/null || fail 13 "what HEAD names cannot be read"
}

# One path in one NUL-ended record. At most 1000 large files are left out one by one: more are too much in any case.
large=$own/large
timeout -k 2 60 find . -xdev -iname .git -prune -o -type f -size "+${file_max}c" -printf '%P\0' 2>/dev/null |
    head -z -n 1000 >"$large"
{
    printf '.\0:(exclude,top,icase).kew-*\0:(exclude,top,icase)**/.kew-*\0'
    sed -z 's/^/:(exclude,top,literal)/' "$large"
} >"$own/paths"

# Threshold 0: contents go straight into one pack, whatever their number, instead of a file each.
setting core.bigFileThreshold 0
said=$(within 240 add --all --ignore-errors --pathspec-from-file="$own/paths" --pathspec-file-nul 2>&1 | head -c 4096)
case $said in *"No space left"* | *"file write error"*) fail 14 "what is there is larger than can be kept" ;; esac
tree=$(within 60 write-tree) || fail 13 "what is there cannot be put together"
setting core.bigFileThreshold 512m

contains() {
    within 60 merge-base --is-ancestor "$1" "$2" 2>/dev/null
}
extra=
contains "$input" "$head" || extra="-p $input"
[ -z "$tip" ] || contains "$tip" "$head" || extra="$extra -p $tip"
kept=$head
if [ -n "$extra" ] || [ "$tree" != "$(within 10 rev-parse "$head^{tree}")" ]; then
    export GIT_AUTHOR_NAME=kew GIT_AUTHOR_EMAIL=kew@kew.local GIT_COMMITTER_NAME=kew GIT_COMMITTER_EMAIL=kew@kew.local
    # Ids without white space, each after its `-p`.
    # shellcheck disable=SC2086
    kept=$(within 10 commit-tree "$tree" -p "$head" $extra -m "$message") || fail 13 "no commit can be made of it"
fi

printf 'kew-collect 1\nhead %s\nsymbolic -\nbranch -\n' "$kept"
head -z -n 20 "$large" | tr '\n\0' '?\n' | cut -c 1-500 | sed 's/^/path /'
printf 'dirty %s\n\n' "$(tr -cd '\0' <"$large" | wc -c)"
[ "$kept" != "$input" ] || exit 0

# The pack goes to stdout (4), the status of its packer to $status (3).
exec 4>&1
status=$({
    {
        printf '%s\n^%s\n' "$kept" "$input" | within 300 pack-objects --revs --stdout --delta-base-offset -q
        echo $? >&3
    } | head -c "$((max + 1))" >&4
} 3>&1)
check_time "$status"
[ "$status" != 141 ] || fail 14 "what is there is larger than $max bytes"
[ "$status" = 0 ] || fail 13 "what is there cannot be packed"
