#!/bin/bash
# Entrypoint of kew-pi: the prompt goes to pi on stdin, the arguments as they came. The host alone decides on
# model, session and output format.
set -euo pipefail
. /usr/local/lib/kew/entrypoint-lib.sh

exec pi "$@" <"$PROMPT_FILE"
