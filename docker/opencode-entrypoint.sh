#!/bin/bash
# Entrypoint of kew-opencode: the prompt goes to opencode on stdin, the arguments as they came. The host alone decides on model,
# permissions and output format.
set -euo pipefail
. /usr/local/lib/kew/entrypoint-lib.sh

exec opencode run "$@" <"$PROMPT_FILE"
