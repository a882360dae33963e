//! The recipes in the binary against `docker/setup.sh`: both must call the same image up to date.

use std::process::Command;

use kew::docker::recipes::RECIPES;

/// What `setup.sh` computes for an image, by its own function for the files and its own line for the digest.
fn by_setup(short: &str, base_id: &str) -> String {
    let script = r#"
set -euo pipefail
setup="$1/docker/setup.sh" here="$1/docker" short="$2" base_id="$3" context="$4"
eval "$(sed -n '/^inputs_of()/,/^}/p' "$setup")"
for file in $(inputs_of "$short"); do install -m 0644 "$here/$file" "$context/$file"; done
eval "$(sed -n 's/^ *inputs="/inputs="/p' "$setup")"
echo "$inputs"
"#;
    let context = tempfile::tempdir().unwrap();
    let output = Command::new("bash")
        .args(["-c", script, "bash", env!("CARGO_MANIFEST_DIR"), short, base_id])
        .arg(context.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn the_binary_and_the_script_mean_the_same_by_up_to_date() {
    for recipe in &RECIPES {
        for base in ["sha256:0123", "sha256:4567"] {
            let ours = recipe.inputs(base);
            assert_eq!(ours.len(), 64);
            assert_eq!(ours, by_setup(recipe.short(), base), "{}", recipe.runner);
        }
    }
}
