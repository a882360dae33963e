# kew-collect INPUT BRANCH [MAX_BYTES [CHECKOUT [GIT_DIR]]]
#
# Runs in a sealed container (no network, read-only mount, no privileges) over a checkout that an agent has had; on the host
# only with a GIT_DIR of kew's own, that borrows the checkout's objects and has nothing else of it. Prints
# what HEAD names, symbolic or detached, and what is uncommitted, then packs what HEAD adds to INPUT. It judges nothing:
# whoever reads its output trusts none of it. Every git runs under a time limit and without the checkout's say.
#
# Exit: 0 done, 10 not a repository, 11 HEAD names no commit, 12 took too long, 13 not packable, 14 larger than MAX_BYTES,
# 15 called wrongly.
input=${1:?} branch=${2:?} max=${3:-536870912} root=${4:-/work}
export GIT_DIR="${5:-$root/.git}" GIT_WORK_TREE="$root"

# A pipe in place of a file would only cost time; a link is not what git makes.
[ -d "$GIT_DIR" ] && [ ! -L "$GIT_DIR" ] && [ -d "$GIT_DIR/objects" ] && [ ! -L "$GIT_DIR/objects" ] && [ -e "$GIT_DIR/HEAD" ] ||
    fail 10 "the checkout is not a repository any more"
for name in HEAD config packed-refs shallow index; do
    part=$GIT_DIR/$name
    [ ! -L "$part" ] || fail 10 "\`.git/$name\` is a symbolic link"
    [ ! -e "$part" ] || [ -f "$part" ] || fail 10 "\`.git/$name\` is not a file"
done
[ ! -e "$GIT_DIR/commondir" ] && [ ! -L "$GIT_DIR/commondir" ] || fail 10 "\`.git/commondir\` names another repository"
beware "$root"
patience=12
[ -z "$until" ] || patience=3
cd "$root" || fail 10 "the checkout cannot be entered"

within 10 rev-parse --git-dir >/dev/null
status=$?
check_time $status
[ $status -eq 0 ] || fail 10 "git does not take the checkout for a repository"

head=$(within 10 rev-parse --verify --quiet --end-of-options 'HEAD^{commit}')
status=$?
check_time $status
[ $status -eq 0 ] || fail 11 "HEAD names no commit"

symbolic=$(within 10 symbolic-ref --quiet HEAD)
check_time $?
tip=$(within 10 rev-parse --verify --quiet --end-of-options "$branch^{commit}")
check_time $?

printf 'kew-collect 1\nhead %s\nsymbolic %.1000s\nbranch %s\n' "$head" "${symbolic:--}" "${tip:--}"

# At most 20 paths and a count of at most 10000; `?` where status did not come to its end.
{
    within $patience status --porcelain=v1 --no-renames --untracked-files=normal --ignore-submodules=dirty \
        -- . ':(exclude,top,icase).kew-*'
    echo "!$?"
} | {
    count=0 ended=
    while IFS= read -r line; do
        case $line in '!'*)
            ended=${line#!}
            break
            ;;
        esac
        count=$((count + 1))
        [ $count -gt 20 ] || printf 'path %.500s\n' "${line#???}"
        [ $count -lt 10000 ] || break
    done
    case $ended in 0 | '') printf 'dirty %s\n\n' "$count" ;; *) printf 'dirty ?\n\n' ;; esac
}

[ "$head" != "$input" ] || exit 0

# The packer is given the objects and where history is cut off, and nothing else of the checkout: attributes, grafts and
# configuration have no say in what is packed, nor in how long it takes.
bare=$(mktemp -d) || fail 13 "there is no room to work in"
trap 'cd / && rm -rf "$bare"' EXIT
mkdir "$bare/objects" "$bare/refs" && echo 'ref: refs/heads/none' >"$bare/HEAD" || fail 13 "there is no room to work in"
{
    printf '[core]\n\tbare = true\n'
    [ ${#input} -eq 40 ] || printf '\trepositoryFormatVersion = 1\n[extensions]\n\tobjectFormat = sha256\n'
} >"$bare/config"
[ ! -e "$GIT_DIR/shallow" ] || head -c 16777216 "$GIT_DIR/shallow" >"$bare/shallow"
export GIT_OBJECT_DIRECTORY="$GIT_DIR/objects" GIT_DIR="$bare"
unset GIT_WORK_TREE
cd "$bare" || fail 13 "there is no room to work in"

# The pack goes to stdout (4), the status of its packer to $status (3).
exec 4>&1
status=$({
    {
        printf '%s\n^%s\n' "$head" "$input" | within 300 pack-objects --revs --stdout --delta-base-offset -q
        echo $? >&3
    } | head -c "$((max + 1))" >&4
} 3>&1)
check_time "$status"
[ "$status" != 141 ] || fail 14 "the commits are larger than $max bytes"
[ "$status" = 0 ] || fail 13 "the commits cannot be packed"
