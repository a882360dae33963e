//! Streams that would fill a careless reader's memory or fool a terminal.

use crate::rig::{Rig, prompt};

/// Peak resident memory of a run, in MiB, by the kernel's own account.
fn peak_of(rig: &Rig, plan: &camino::Utf8Path) -> (i32, u64, String) {
    let mut command = rig.command("/usr/bin/env", &[]);
    command.args(["bash", "-c", "\"$0\" run \"$1\" --format json & pid=$!; peak=0; while kill -0 $pid 2>/dev/null; do \
        now=$(awk '/^VmHWM/ {print $2}' /proc/$pid/status 2>/dev/null); [ \"${now:-0}\" -gt $peak ] && peak=$now; sleep 0.05; done; wait $pid; code=$?; echo \"peak $peak\" >&2; exit $code"]);
    command.args([env!("CARGO_BIN_EXE_kew"), plan.as_str()]);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let peak: u64 =
        stderr.lines().rev().find_map(|line| line.strip_prefix("peak ")).unwrap().parse().unwrap();
    (output.status.code().unwrap(), peak / 1024, String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn docker_a_line_of_600_mb_needs_no_memory_and_the_next_is_read() {
    let rig = Rig::new();
    // The image's own wrapper would cut the line: this image writes it raw.
    crate::contain::docker_build(
        "kew-test-long",
        "FROM kew-shell\nENTRYPOINT [\"/bin/sh\", \"-c\", \"head -c 629145600 /dev/zero | tr '\\\\\\\\0' a; echo; echo '{\\\"type\\\":\\\"result\\\",\\\"exit_code\\\":0}'\"]\n",
    );
    rig.settings(&format!(
        "[sandbox]\ncheckout_dir = \"{}\"\n[sandbox.images]\nshell = \"kew-test-long\"\n",
        rig.checkouts
    ));
    let plan = rig.plan("[nodes.a]\nprompt = 'x'\n");
    let (code, peak, out) = peak_of(&rig, &plan);
    assert_eq!(code, 0, "{out}");
    assert!(peak > 1 && peak < 64, "{peak} MiB");
    let run =
        out.lines().next().and_then(|line| serde_json::from_str::<serde_json::Value>(line).ok()).unwrap();
    let log = rig.repo.join(format!(".git/kew/runs/{}/a/1/stdout.log", run["run"].as_str().unwrap()));
    let size = std::fs::metadata(log).unwrap().len();
    assert!(size > 1 << 20 && size < 2 << 20, "the line is cut in the log: {size} bytes");
}

#[test]
fn docker_a_flood_is_stopped_at_the_cap() {
    let rig = Rig::with_settings("log_max = \"1MiB\"\nstop_grace = 1");
    let plan = rig.plan(&format!("[nodes.a]\n{}\n", prompt("yes | head -c 400000000")));
    let ran = rig.run(&plan);
    ran.expect(1);
    assert!(ran.outcome("a").starts_with("runaway: "), "{}", ran.outcome("a"));
}

#[test]
fn docker_agent_text_cannot_move_the_cursor_or_start_a_command() {
    let rig = Rig::new();
    let script = "printf '::error::x\\n##[error]y\\n\\033[2J\\033]0;t\\007\\342\\200\\256z\\n'; exit 1";
    let plan = rig.plan(&format!("[nodes.a]\n{}\n", prompt(script)));
    let output = rig.kew(&["run", plan.as_str()]);
    let text = [output.stdout, output.stderr].concat();
    let logs = rig.kew(&["logs", "latest", "a"]);
    for text in [text, logs.stdout] {
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.lines().all(|line| !line.trim_start().starts_with("::") && !line.contains("##[")),
            "{text}"
        );
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}') && !text.contains('\u{202e}'), "{text}");
    }
}
