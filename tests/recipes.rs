//! The recipes in the binary: each has what its Dockerfile copies, so that an installed kew can build it.

use camino::Utf8Path;
use kew::{docker::recipes::RECIPES, runners};

#[test]
fn every_file_that_a_dockerfile_copies_is_in_its_recipe() {
    for recipe in &RECIPES {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        recipe.write(folder).unwrap();
        let text = std::fs::read_to_string(folder.join(recipe.dockerfile)).unwrap();
        let mut copied = vec![recipe.dockerfile.to_owned()];
        for line in text.lines().filter(|line| line.starts_with("COPY ") && !line.contains("--from=")) {
            let words: Vec<&str> = line.split_whitespace().skip(1).collect();
            // The last one is where they go; a pattern may match nothing.
            let names = words[..words.len() - 1].iter().filter(|name| !name.contains('['));
            copied.extend(names.map(|name| (*name).to_owned()));
        }
        copied.extend(["entrypoint-lib.sh", "image.sh"].map(String::from));
        copied.sort();
        copied.dedup();
        let mut written: Vec<String> =
            folder.read_dir_utf8().unwrap().map(|entry| entry.unwrap().file_name().to_owned()).collect();
        written.sort();
        assert_eq!(written, copied, "{}", recipe.runner);
    }
}

#[test]
fn every_runner_that_runs_in_a_container_has_a_recipe() {
    for runner in runners::built_in() {
        let recipe = RECIPES.iter().any(|recipe| recipe.runner == runner.name());
        assert_eq!(recipe, runner.refusal().is_none(), "{}", runner.name());
    }
}
