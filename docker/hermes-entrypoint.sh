#!/bin/bash
# Entrypoint of kew-hermes: the prompt goes to hermes on stdin, the arguments as they came. hermes itself
# reads no prompt from stdin and prints no JSON; hermes-oneshot.py does both, inside the same process.
set -euo pipefail
. /usr/local/lib/kew/entrypoint-lib.sh

exec /usr/local/lib/hermes/bin/python /usr/local/lib/kew/hermes-oneshot.py "$@" <"$PROMPT_FILE"
