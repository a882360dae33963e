#!/bin/bash
# Entrypoint of kew-shell: the prompt is a bash script, run in /work. Its output goes to stdout as one JSON object per
# line, then comes one `result` line; the container's exit status is the script's.
set -euo pipefail
. /usr/local/lib/kew/entrypoint-lib.sh

# bash reads a script piece by piece: a copy keeps it whole while the job changes or kew removes the original.
cp -- "$PROMPT_FILE" "$HOME/.tmp/kew-job.sh"
exec perl /usr/local/lib/kew/shell-events.pl bash "$HOME/.tmp/kew-job.sh" "$@"
