# Sourced by every entrypoint: finds the prompt, makes a usable home. Sets PROMPT_FILE; prints on stderr only.
#
# The home folder is an empty tmpfs in every run and the only place where files may be executed (/tmp is noexec, the
# root file system is read-only), so all that a tool wants to write outside the checkout is pointed there.

umask 022

PROMPT_FILE="${KEW_PROMPT_FILE:-/work/.kew-prompt.txt}"
if [ ! -f "$PROMPT_FILE" ] || [ ! -r "$PROMPT_FILE" ]; then
    echo "kew: no readable prompt file at $PROMPT_FILE" >&2
    exit 64
fi
if [ ! -s "$PROMPT_FILE" ]; then
    echo "kew: the prompt file $PROMPT_FILE is empty" >&2
    exit 64
fi

# /work belongs to another uid than the container's user, and there is no ~/.gitconfig.
git config --global --add safe.directory /work
git config --global user.name "kew-agent"
git config --global user.email "agent@kew.local"

mkdir -p "$HOME/.tmp" "$HOME/.local/bin"
export TMPDIR="$HOME/.tmp" TMP="$HOME/.tmp" TEMP="$HOME/.tmp"
export XDG_CACHE_HOME="$HOME/.cache" XDG_CONFIG_HOME="$HOME/.config"
export XDG_DATA_HOME="$HOME/.local/share" XDG_STATE_HOME="$HOME/.local/state"
export PATH="$HOME/.local/bin:$PATH"

# Folders that tools write to. One that the image set and that is writable (below /work, say) stays as it is.
kew_home_dir() { # NAME DEFAULT
    if [ -z "${!1-}" ] || [ ! -w "${!1}" ]; then
        export "$1=$2"
    fi
}
kew_home_dir CARGO_HOME "$HOME/.cargo"
kew_home_dir GOCACHE "$HOME/.cache/go-build"
kew_home_dir GOPATH "$HOME/go"
kew_home_dir PIP_CACHE_DIR "$HOME/.cache/pip"
kew_home_dir UV_CACHE_DIR "$HOME/.cache/uv"
kew_home_dir npm_config_cache "$HOME/.cache/npm"
kew_home_dir npm_config_prefix "$HOME/.local"
