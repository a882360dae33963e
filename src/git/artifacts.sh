# kew-artifacts MAX_FILES MAX_FILE MAX_BYTES CHECKOUT REGEX…
#
# Runs in a sealed container (no network, read-only mount, no privileges) over a checkout whose attempt is over. Prints a
# list of what matches one of the expressions (POSIX extended, over paths that begin with `./`) but is not packed, then a
# tar of the regular files that match. It follows no link. Whoever reads the output trusts none of it.
#
# The list: `kew-artifacts 1`, how many files match, then `TYPE SIZE PATH` for at most 20 of the others, then nothing; each
# ends with NUL. Files come in the order of their names, at most MAX_FILES, none above MAX_FILE bytes, MAX_BYTES in all.
#
# Exit: 0 done, 12 took too long, 13 not packable, 15 called wrongly.
set -uf
export LC_ALL=C
files=${1:?} file_max=${2:?} bytes_max=${3:?} root=${4:?}
shift 4

fail() {
    echo "kew-artifacts: $2" >&2
    exit "$1"
}
check_time() {
    case $1 in 124 | 137) fail 12 "it took too long" ;; esac
}

work=$(mktemp -d) || fail 13 "there is no room to work in"
trap 'cd / && rm -rf "$work"' EXIT
cd "$root" || fail 13 "the checkout cannot be entered"

# Joins the expressions by -o, as arguments.
count=$#
[ "$count" -gt 0 ] || fail 15 "no expression"
for regex in "$@"; do
    set -- "$@" -o -regex "$regex"
done
shift "$((count + 1))"

timeout -k 2 120 find . -xdev \( -iname .git -o -iname '.kew-*' \) -prune -o -regextype posix-extended \( "$@" \) ! -type d \
    \( -type f -size "-$((file_max + 1))c" -fprintf "$work/all" '%P\0' -o -fprintf "$work/others" '%y %s %P\0' \) \
    2>"$work/said"
status=$?
check_time $status
# A folder that cannot be entered is the agent's own doing; a list that could not be written is not.
! grep -q 'No space left' "$work/said" || fail 13 "too many files match"
sort -z "$work/all" | head -z -n "$files" >"$work/files" || fail 13 "the list cannot be sorted"

printf 'kew-artifacts 1\0%s\0' "$(tr -cd '\0' <"$work/all" | wc -c)"
sort -z -k 3 "$work/others" | head -z -n 20
printf '\0'
[ -s "$work/files" ] || exit 0

exec 4>&1
status=$({
    {
        timeout -k 2 600 tar --create --file=- --format=gnu --no-recursion --hard-dereference --owner=0 --group=0 \
            --numeric-owner --mtime=@0 --ignore-failed-read --no-acls --no-selinux --no-xattrs \
            --null --verbatim-files-from --files-from="$work/files" 2>/dev/null
        echo $? >&3
    } | head -c "$bytes_max" >&4
} 3>&1)
check_time "$status"
# 1: a file changed or vanished meanwhile; 141: the rest is above the limit. The reader sees how far it came.
case $status in 0 | 1 | 141) ;; *) fail 13 "the files cannot be packed" ;; esac
