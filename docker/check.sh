#!/bin/bash
# Checks the built images against the container contract, from outside and from inside, under kew's own hardening
# (try.sh). Prints `ok` or `FAIL` per item; exits 1 if one failed. Needs root (a checkout must belong to uid 1001), an
# engine and what setup.sh makes. Leaves nothing behind.
#
# usage: check.sh [--no-agent]
set -uo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
agents=(agent opencode pi hermes)
images=(collector shell "${agents[@]}")
case "${1-}" in
"") ;;
--no-agent) images=(collector shell) agents=() ;;
*) sed -n 's/^# usage: /usage: /p' "$0" >&2; exit 2 ;;
esac
[ "$(id -u)" = 0 ] || { echo "check: needs root: a checkout must belong to uid 1001" >&2; exit 2; }

scratch="$(mktemp -d "${TMPDIR:-/var/tmp}/kew-check.XXXXXX")"
fake="kew-check-agent:$$"
cleanup() {
    docker image rm -f "$fake" >/dev/null 2>&1
    rm -rf -- "$scratch"
}
trap cleanup EXIT

total=0
failed=0

# A condition given as a command.
check() { # WHAT COMMAND…
    local what="$1"
    shift
    total=$((total + 1))
    if "$@"; then
        echo "ok    $what"
    else
        failed=$((failed + 1))
        echo "FAIL  $what"
    fi
}

# Whether the lines of `out` are JSON and, as one array, satisfy a jq filter.
events() { # FILTER
    jq -e -s "$1" <<<"$out" >/dev/null
}

same() { # WHAT EXPECTED GOT
    total=$((total + 1))
    if [ "$2" = "$3" ]; then
        echo "ok    $1"
    else
        failed=$((failed + 1))
        printf 'FAIL  %s\n      expected: %q\n      got:      %q\n' "$1" "$2" "$3"
    fi
}

# A fresh checkout of uid 1001; with a prompt, if one is given. Sets `dir`.
checkout() { # [PROMPT]
    dir="$(mktemp -d "$scratch/work.XXXXXX")"
    git -C "$dir" init -q -b main
    [ $# = 0 ] || { printf '%s\n' "$1" >"$dir/.kew-prompt.txt"; chmod 0444 "$dir/.kew-prompt.txt"; }
    chown -R 1001:1001 "$dir"
}

# Runs a container; sets `out`, `err` and `status`.
run() { # try.sh's arguments…
    out="$("$here/try.sh" "$@" 2>"$scratch/err")"
    status=$?
    err="$(<"$scratch/err")"
}

# --- every image ----------------------------------------------------------------------------------------------------

same "one base image for all" 1 "$(sed -n 's/^ARG BASE_IMAGE=//p' "$here"/*.Dockerfile | sort -u | wc -l)"
check "the base image is pinned by digest" grep -qE '^ARG BASE_IMAGE=debian:bookworm-slim@sha256:[0-9a-f]{64}$' "$here/agent.Dockerfile"

probe='
echo "id $(id -u) $(id -g)"
sed -n "s/^\(CapInh\|CapPrm\|CapEff\|CapBnd\|CapAmb\|NoNewPrivs\|Seccomp\):\t/\1 /p" /proc/self/status
echo "home $HOME $(stat -c "%a %u" "$HOME")"
printf "#!/bin/sh\necho runs\n" >"$HOME/x"; chmod +x "$HOME/x"; echo "home file $("$HOME/x" 2>&1)"
cp "$HOME/x" /tmp/x && echo "tmp writable"; /tmp/x >/dev/null 2>&1 || echo "tmp noexec"
for d in / /usr/local/bin /etc /var/lib /home /opt; do ( : >"$d/kew-probe" ) 2>/dev/null && echo "writable $d"; done
: >/work/probe && echo "work writable"
echo "cwd $(pwd)"
echo "setuid $(find / -xdev -type f -perm /6000 2>/dev/null | wc -l)"
echo "mounts $(grep -cE " /(work|tmp|home/agent) " /proc/mounts)"
ls /var/run/docker.sock 2>/dev/null
exit 0'
expected='id 1001 1001
CapInh 0000000000000000
CapPrm 0000000000000000
CapEff 0000000000000000
CapBnd 0000000000000000
CapAmb 0000000000000000
NoNewPrivs 1
Seccomp 2
home /home/agent 700 1001
home file runs
tmp writable
tmp noexec
work writable
cwd /work
setuid 0
mounts 3'

for short in "${images[@]}"; do
    image="kew-$short"
    if ! docker image inspect "$image" >/dev/null 2>&1; then
        check "$image is built" false
        continue
    fi
    checkout "the prompt"
    run --entrypoint cat "$dir" "$image" /work/.kew-prompt.txt
    same "$image: the prompt comes back through the mount" "0 the prompt" "$status $out"
    run --entrypoint /bin/sh "$dir" "$image" -c "$probe"
    same "$image: hardening, seen from inside" "$expected" "$out"
    same "$image: user, folder" "agent /work" "$(docker image inspect -f '{{.Config.User}} {{.Config.WorkingDir}}' "$image")"
    same "$image: no volume, no port" "0 0" "$(docker image inspect -f '{{len .Config.Volumes}} {{len .Config.ExposedPorts}}' "$image")"
    same "$image: no credential in the environment" "" \
        "$(docker image inspect -f '{{range .Config.Env}}{{println .}}{{end}}' "$image" | grep -iE 'key|token|secret|passw|proxy|cert|registry|index_url')"
    same "$image: no download setting in its history" "" \
        "$(docker history --no-trunc --format '{{.CreatedBy}}' "$image" | grep -iE 'extra-ca|registry=|index-url|https?://|_authToken|proxy')"
    # Every layer, so that a file removed by a later one counts as well.
    docker save "$image" | tar -C "$scratch" -x --one-top-level=saved
    for layer in "$scratch"/saved/*/layer.tar "$scratch"/saved/blobs/sha256/*; do
        [ ! -f "$layer" ] || tar -tf "$layer" 2>/dev/null
    done | sort -u >"$scratch/files"
    rm -rf "$scratch/saved"
    check "$image: its layers are read" grep -q 'usr/bin/git$' "$scratch/files"
    same "$image: no CA, registry or account file in any layer" "" \
        "$(grep -E '(extra-ca|bundle)\.pem|^fetch/|pip\.conf|\.npmrc$|/npmrc$|\.netrc$|\.docker/|\.gitconfig$|\.ssh/|\.aws/|id_rsa|\.claude|usr/local/share/ca-certificates/.|\.kew-' "$scratch/files")"
    [ "$short" = hermes ] ||
        same "$image: no Python" "" "$(grep -E '(^|/)bin/(python|pip)[0-9.]*$' "$scratch/files")"
    run --entrypoint /bin/sh "$dir" "$image" -c '
        [ -e /etc/ssl/certs/ca-certificates.crt ] || exit 0
        cat /usr/share/ca-certificates/*/*.crt | grep -c BEGIN; grep -c BEGIN /etc/ssl/certs/ca-certificates.crt'
    check "$image: only Debian's certificates" [ "$(uniq <<<"$out" | wc -l)" = 1 ]
done

run --network none --entrypoint /bin/sh "$dir" kew-collector -c '
    git version | grep -q "^git version 2\.\(39\|[4-9][0-9]\)" && timeout 5 sh -c "find /usr/bin -name git; stat -c %u /work"'
same "kew-collector: git, timeout, find and stat, without a network" "0 /usr/bin/git 1001" "$status $(echo $out)"
same "kew-collector: no entrypoint" "[]" "$(docker image inspect -f '{{.Config.Entrypoint}}' kew-collector)"

same "kew-gateway: nobody, no volume, no port, hardened" "65534:65534 0 0 [ALL] true [no-new-privileges]" \
    "$(docker image inspect -f '{{.Config.User}} {{len .Config.Volumes}} {{len .Config.ExposedPorts}}' kew-gateway) $(
        docker inspect -f '{{.HostConfig.CapDrop}} {{.HostConfig.ReadonlyRootfs}} {{.HostConfig.SecurityOpt}}' kew-gateway)"
same "kew-gateway: no setuid file" 0 "$(docker run --rm --network none --entrypoint sh kew-gateway -c 'find / -xdev -type f -perm /6000 2>/dev/null | wc -l')"

# --- the entrypoints ------------------------------------------------------------------------------------------------

# What the contract asks of every image with an entrypoint. The image must not run anything without a prompt.
no_prompt() { # IMAGE
    checkout
    run "$dir" "$1"
    same "$1: no prompt file ends with 64 and says so on stderr alone" "64||kew: no readable prompt file at /work/.kew-prompt.txt" "$status|$out|$err"
    : >"$dir/.kew-prompt.txt"
    run "$dir" "$1"
    same "$1: an empty prompt file ends with 64" "64||kew: the prompt file /work/.kew-prompt.txt is empty" "$status|$out|$err"
    rm "$dir/.kew-prompt.txt"
    mkdir "$dir/.kew-prompt.txt"
    run "$dir" "$1"
    same "$1: a folder is no prompt file" "64|" "$status|$out"
    checkout "unused"
    KEW_PROMPT_FILE=/work/none run --env KEW_PROMPT_FILE "$dir" "$1"
    same "$1: KEW_PROMPT_FILE is not second-guessed" "64||kew: no readable prompt file at /work/none" "$status|$out|$err"
}

text() { jq -r 'select(.type == "output").text' <<<"$out"; }

same "kew-shell: entrypoint" "[/usr/local/bin/kew-shell-entrypoint]" "$(docker image inspect -f '{{.Config.Entrypoint}}' kew-shell)"
no_prompt kew-shell

checkout 'echo one; echo two >&2; printf "tab\there \"q\" \\ \033[1m"; exit 3'
run "$dir" kew-shell
same "kew-shell: output, result, status" '3|{"type":"output","text":"one"}
{"type":"output","text":"two"}
{"type":"output","text":"tab\there \"q\" \\ \u001b[1m"}
{"type":"result","exit_code":3}' "$status|$out"

checkout 'exit 9'
printf 'echo other; exit 4' >"$dir/other.txt"
KEW_PROMPT_FILE=/work/other.txt run --env KEW_PROMPT_FILE "$dir" kew-shell
same "kew-shell: KEW_PROMPT_FILE" "4 other" "$status $(text)"

checkout 'printf "<%s>" "$#" "$@"; echo; pwd; cat; kill -9 $$'
run "$dir" kew-shell 'a b' '' '--print' '*' '$HOME'
same "kew-shell: arguments, folder, empty stdin, death by signal" '137 <5><a b><><--print><*><$HOME> /work' "$status $(echo $(text))"

checkout 'set -e
echo hello >file; git add file; git commit -qm "work"; git log -1 --format="%an <%ae> %s"
printf "{}" >/work/.kew-review-verdict.json
printf "#!/bin/sh\necho exec\n" >"$TMPDIR/t"; chmod +x "$TMPDIR/t"; "$TMPDIR/t"; echo "$TMP $TEMP $(mktemp -d | cut -c1-16) $(umask)"
for v in CARGO_HOME GOPATH GOCACHE UV_CACHE_DIR PIP_CACHE_DIR npm_config_cache XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME; do
    mkdir -p "${!v}" && case "${!v}" in "$HOME"/*) ;; *) echo "$v outside" ;; esac
done
jq --version >/dev/null && curl --version >/dev/null && ps >/dev/null && [ -z "${ANTHROPIC_API_KEY+set}" ] || echo no key'
env -u ANTHROPIC_API_KEY "$here/try.sh" --env ANTHROPIC_API_KEY "$dir" kew-shell >"$scratch/out" 2>/dev/null
status=$?
out="$(<"$scratch/out")"
same "kew-shell: a commit, the home folder, tools, an unset name stays unset" \
    "0 kew-agent <agent@kew.local> work exec /home/agent/.tmp /home/agent/.tmp /home/agent/.tmp 0022" "$status $(echo $(text))"
same "kew-shell: the commit belongs to uid 1001, the sidecar is where it was written" "1001 {}" \
    "$(stat -c %u "$dir/.git/refs/heads/main") $(<"$dir/.kew-review-verdict.json")"

checkout 'rm -f /work/.kew-prompt.txt; echo still; sleep 0.1; echo here'
run "$dir" kew-shell
same "kew-shell: a job survives the removal of its prompt" "0 still here" "$status $(echo $(text))"

checkout 'printf "a\xff\xed\xa0\x80b\xe2\x82\n\x00\x1f\n"; printf "\xf0\x9f\x98\x80"'
run "$dir" kew-shell
check "kew-shell: bytes that are no text still make events" events 'length == 4 and .[2].text == "😀" and (.[1].text | explode) == [0, 31]'

checkout 'sleep 300 & (while sleep 0.2; do echo noise; done) & echo done; exit 6'
began=$SECONDS
run "$dir" kew-shell
same "kew-shell: what a job leaves running does not hold it" '6 {"type":"result","exit_code":6}' "$status $(tail -n 1 <<<"$out")"
check "kew-shell: … for long" [ $((SECONDS - began)) -lt 15 ]

checkout 'head -c 600M /dev/zero | tr "\0" x; echo; head -c 2M /dev/zero | tr "\0" "\1"; echo end'
"$here/try.sh" --entrypoint bash "$dir" kew-shell -c 'ulimit -v 120000; exec kew-shell-entrypoint' 2>/dev/null |
    perl -ne '$max = length if length > $max; $x += tr/x//; $one += () = /\\u0001/g; $last = $_;
        END { print $x - $., " $one ", $max < 1 << 20 ? "short " : "$max ", $last }' >"$scratch/out"
same "kew-shell: 600 MB without a newline in little memory, in lines below 1 MiB" '629145600 2097152 short {"type":"result","exit_code":0}' "$(<"$scratch/out")"

# A whole group is asked to end: the sleep would else outlive its shell.
signalled() { # SIGNAL STATUS
    local name="kew-check-$$-$1" began=$SECONDS pid
    checkout 'trap "echo asked; exit 0" TERM INT; echo ready; sleep 300 | sleep 300; echo not here'
    "$here/try.sh" --name "$name" "$dir" kew-shell >"$scratch/out" 2>/dev/null &
    pid=$!
    until grep -q ready "$scratch/out"; do
        [ $((SECONDS - began)) -lt 30 ] || break
        sleep 0.1
    done
    docker kill -s "$1" "$name" >/dev/null
    wait "$pid"
    status=$?
    same "kew-shell: SIG$1 reaches the job's group, status $2, no result" "$2 ready asked" "$status $(jq -r .text "$scratch/out" | grep -v '^Terminated$' | tr '\n' ' ' | sed 's/ $//')"
    check "kew-shell: SIG$1 ends it soon" [ $((SECONDS - began)) -lt 20 ]
}
signalled TERM 143
signalled INT 130

# --- the agents -------------------------------------------------------------------------------------------------------

# The exact version, out of its lock file.
pinned() { # agent|opencode|pi|hermes
    if [ -f "$here/$1-package.json" ]; then
        sed -n '/"dependencies"/,/}/s/.*": "\([0-9.]*\)".*/\1/p' "$here/$1-package.json"
    else
        sed -n "s/^$1-agent==\([0-9.]*\).*/\1/p" "$here/$1-requirements.txt"
    fi
}

for short in "${agents[@]}"; do
    image="kew-$short" program="$short"
    [ "$short" != agent ] || program=claude
    docker image inspect "$image" >/dev/null 2>&1 || continue
    same "$image: entrypoint" "[/usr/local/bin/kew-$short-entrypoint]" "$(docker image inspect -f '{{.Config.Entrypoint}}' "$image")"
    no_prompt "$image"
    checkout
    run --network none --entrypoint bash "$dir" "$image" -c "$program --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1"
    same "$image: the pinned agent" "$(pinned "$short")" "$out"
    run --network none --entrypoint bash "$dir" "$image" -c 'node -v | cut -d. -f1; npm -v >/dev/null && npx -v >/dev/null && uv --version | cut -d" " -f1
        command -v node npm uv git curl jq ps | tr "\n" " "'
    same "$image: tools" "v22 uv /usr/local/bin/node /usr/local/bin/npm /usr/local/bin/uv /usr/bin/git /usr/bin/curl /usr/bin/jq /usr/bin/ps" "$(echo $out)"
done

# Layers up to the tools that all agents share are the same.
shared_layers() { docker image inspect -f '{{join .RootFS.Layers "\n"}}' "$1"; }
if [ ${#agents[@]} = 4 ] && docker image inspect kew-opencode kew-pi >/dev/null 2>&1; then
    # Base image, three steps, the tools.
    same "kew-opencode and kew-pi share their common layers" "$(shared_layers kew-opencode | head -n 6)" "$(shared_layers kew-pi | head -n 6)"
fi

# The arguments as they came, the prompt on stdin: seen by a stand-in for the agent's program.
for short in opencode pi; do
    [[ " ${agents[*]} " == *" $short "* ]] && docker image inspect "kew-$short" >/dev/null 2>&1 || continue
    checkout $'do "this"\n  and $that'
    printf '#!/bin/sh\njq -cn --arg stdin "$(cat)" \x27{argv: $ARGS.positional, stdin: $stdin}\x27 --args -- "$@"\nexit 5\n' >"$dir/$short"
    chmod 0755 "$dir/$short"
    # The entrypoint looks in the home first.
    run --network none --entrypoint bash "$dir" "kew-$short" -c "mkdir -p ~/.local/bin && cp /work/$short ~/.local/bin/ && exec kew-$short-entrypoint \"\$@\"" - --model 'a b' '' '*' -- '-x'
    first='[' && [ "$short" = pi ] || first='["run",'
    same "kew-$short: the arguments unmodified, the prompt on stdin, the agent's status" \
        "5|{\"argv\":$first\"--model\",\"a b\",\"\",\"*\",\"--\",\"-x\"],\"stdin\":\"do \\\"this\\\"\\n  and \$that\"}" "$status|$out"
done

# The prompt of hermes is in no command line, whatever its length.
if [[ " ${agents[*]} " == *" hermes "* ]] && docker image inspect kew-hermes >/dev/null 2>&1; then
    checkout "secret-word $(head -c 1000000 /dev/zero | tr '\0' x)"
    run --network none --entrypoint bash "$dir" kew-hermes -c '
        kew-hermes-entrypoint --provider openrouter --model a/b >~/out 2>~/err & pid=$!
        found=0
        while kill -0 $pid 2>/dev/null; do
            for file in /proc/[0-9]*/cmdline; do tr "\0" " " <"$file" 2>/dev/null | grep -q "secret-wor[d]" && found=1; done
            sleep 0.2
        done
        wait $pid; echo "status $? found $found lines $(wc -l <~/out)"; cat ~/out'
    same "kew-hermes: 1 MB of prompt, in no command line, one line of result" "status 1 found 0 lines 1" "$(head -n 1 <<<"$out")"
    out="$(tail -n 1 <<<"$out")"
    check "kew-hermes: … which says that it failed" events '.[-1].type == "result" and .[-1].failed'
fi

# --- kew-agent ------------------------------------------------------------------------------------------------------

if [[ " ${images[*]} " == *" agent "* ]] && docker image inspect kew-agent >/dev/null 2>&1; then
    same "kew-agent: quiet, not updating, few retries" \
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 CLAUDE_CODE_MAX_RETRIES=3 DISABLE_AUTOUPDATER=1" \
        "$(docker image inspect -f '{{range .Config.Env}}{{println .}}{{end}}' kew-agent | grep -E 'CLAUDE|DISABLE' | sort | tr '\n' ' ' | sed 's/ $//')"

    # The same image with an agent that tells what it was given.
    mkdir "$scratch/fake"
    cat >"$scratch/fake/claude" <<'FAKE'
#!/bin/bash
jq -cn --arg stdin "$(cat)" --arg tmp "$TMPDIR" --arg pid $$ '{argv: $ARGS.positional, stdin: $stdin, tmp: $tmp}' --args -- "$@"
echo "for people" >&2
echo x >>/work/x && git -C /work add x && git -C /work commit -qm x || exit 1
printf '{"verdict":"approve"}' >/work/.kew-review-verdict.json
exit 5
FAKE
    printf 'FROM kew-agent\nUSER root\nCOPY claude /usr/local/bin/claude\nRUN chmod 0755 /usr/local/bin/claude\nUSER agent\n' >"$scratch/fake/Dockerfile"
    check "kew-agent: an image can be derived from it" env DOCKER_BUILDKIT=0 bash -c 'docker build -q -t "$1" "$2" >/dev/null 2>&1' - "$fake" "$scratch/fake"

    checkout $'do "this"\n  and $that'
    run "$dir" "$fake" --dangerously-skip-permissions --verbose --output-format stream-json --model 'a b' '' '*' -- '-x'
    same "kew-agent: --print, then the arguments unmodified; the prompt on stdin; stderr apart; the agent's status" \
        '5|{"argv":["--print","--dangerously-skip-permissions","--verbose","--output-format","stream-json","--model","a b","","*","--","-x"],"stdin":"do \"this\"\n  and $that","tmp":"/home/agent/.tmp"}|for people' "$status|$out|$err"
    same "kew-agent: its commit and its sidecar" 'kew-agent <agent@kew.local> 1001 {"verdict":"approve"}' \
        "$(git -c safe.directory="$dir" -C "$dir" log -1 --format='%an <%ae>') $(stat -c %u "$dir/x") $(<"$dir/.kew-review-verdict.json")"
    printf 'another' >"$dir/p"
    KEW_PROMPT_FILE=/work/p run --env KEW_PROMPT_FILE "$dir" "$fake"
    same "kew-agent: KEW_PROMPT_FILE; no argument of its own but --print" '["--print"] another' "$(jq -c .argv <<<"$out") $(jq -r .stdin <<<"$out")"

    checkout "hi"
    run "$dir" kew-agent --dangerously-skip-permissions --verbose --output-format stream-json --model claude-sonnet-4-5
    check "kew-agent: without a credential the real agent fails with an end marker, in JSON lines" \
        events '.[-1].type == "result" and .[-1].is_error'
    check "kew-agent: … and a status" [ "$status" != 0 ]
fi

echo "$total checks, $failed failed"
[ "$failed" = 0 ]
