//! The walk for a verdict that was written below the root: exactly one, within bounds, and never through a link.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    process::Command,
};

use camino::{Utf8Path, Utf8PathBuf};
use kew::git::{
    beneath::ReadFault,
    recover::{DEPTH, ENTRIES, RecoverFault, recover},
};

const NAME: &str = ".kew-review-verdict.json";

struct Place {
    _tmp: tempfile::TempDir,
    root: Utf8PathBuf,
}

impl Place {
    fn new() -> Self {
        let tmp = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(tmp.path()).unwrap().join("work");
        fs::create_dir_all(root.join(".git")).unwrap();
        Self { _tmp: tmp, root }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn recover(&self) -> Result<Vec<u8>, RecoverFault> {
        recover(&self.root, NAME, 1000)
    }
}

#[test]
fn one_file_below_is_found() {
    let place = Place::new();
    place.write("src/main.rs", "");
    assert!(matches!(place.recover(), Err(RecoverFault::None)));
    place.write(&format!("packages/app/{NAME}"), "yes");
    assert_eq!(place.recover().unwrap(), b"yes");
}

#[test]
fn the_deepest_is_four_folders_down() {
    let place = Place::new();
    let deep = "d/".repeat(DEPTH);
    place.write(&format!("{deep}d/{NAME}"), "too deep");
    assert!(matches!(place.recover(), Err(RecoverFault::None)));
    place.write(&format!("{deep}{NAME}"), "yes");
    assert_eq!(place.recover().unwrap(), b"yes");
}

#[test]
fn two_are_one_too_many_wherever_they_are() {
    let place = Place::new();
    place.write(&format!("a/{NAME}"), "1");
    place.write(&format!("a/b/{NAME}"), "2");
    assert!(matches!(place.recover(), Err(RecoverFault::Several)));
    fs::remove_dir_all(place.root.join("a/b")).unwrap();
    // A folder or a link of that name is a candidate too.
    fs::create_dir_all(place.root.join("z").join(NAME)).unwrap();
    assert!(matches!(place.recover(), Err(RecoverFault::Several)));
}

#[test]
fn a_double_in_another_case_is_told() {
    let place = Place::new();
    place.write(&format!("a/{NAME}"), "1");
    place.write("b/c/.KEW-review-verdict.json", "2");
    assert!(
        matches!(place.recover(), Err(RecoverFault::Disguised(path)) if path == "b/c/.KEW-review-verdict.json")
    );
}

#[test]
fn repositories_are_left_out() {
    let place = Place::new();
    place.write(&format!(".git/{NAME}"), "1");
    place.write(&format!("vendor/.git/deep/{NAME}"), "2");
    assert!(matches!(place.recover(), Err(RecoverFault::None)));
}

#[test]
fn links_lead_nowhere() {
    let place = Place::new();
    let out = place.root.parent().unwrap().join("out");
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join(NAME), "outside").unwrap();
    symlink(&out, place.root.join("linked")).unwrap();
    symlink(".", place.root.join("loop")).unwrap();
    assert!(matches!(place.recover(), Err(RecoverFault::None)));
    fs::create_dir(place.root.join("a")).unwrap();
    symlink(out.join(NAME), place.root.join("a").join(NAME)).unwrap();
    assert!(matches!(place.recover(), Err(RecoverFault::Read(ReadFault::Symlink))));
}

#[test]
fn pipes_hard_links_and_large_files_are_refused_in_time() {
    let place = Place::new();
    fs::create_dir(place.root.join("a")).unwrap();
    let file = place.root.join("a").join(NAME);
    assert!(Command::new("mkfifo").args([&file, &place.root.join("pipe")]).status().unwrap().success());
    assert!(matches!(place.recover(), Err(RecoverFault::Read(ReadFault::NotARegularFile))));
    fs::remove_file(&file).unwrap();
    fs::write(place.root.join("real"), "x").unwrap();
    fs::hard_link(place.root.join("real"), &file).unwrap();
    assert!(matches!(place.recover(), Err(RecoverFault::Read(ReadFault::HardLinked))));
    fs::remove_file(&file).unwrap();
    fs::File::create(&file).unwrap().set_len(1001).unwrap();
    assert!(matches!(place.recover(), Err(RecoverFault::Read(ReadFault::TooLarge { .. }))));
}

#[test]
fn too_many_names_give_no_file() {
    let place = Place::new();
    place.write(&format!("a/{NAME}"), "yes");
    fs::create_dir(place.root.join("many")).unwrap();
    for at in 0..=ENTRIES {
        fs::File::create(place.root.join(format!("many/{at}"))).unwrap();
    }
    assert!(matches!(place.recover(), Err(RecoverFault::TooMany)));
}

#[test]
fn a_folder_that_cannot_be_read_gives_no_file() {
    // Root reads everything; there is nothing to see then.
    if crate::support::is_root() {
        return;
    }
    let place = Place::new();
    place.write(&format!("a/{NAME}"), "yes");
    fs::create_dir(place.root.join("shut")).unwrap();
    fs::set_permissions(place.root.join("shut"), fs::Permissions::from_mode(0o000)).unwrap();
    let found = place.recover();
    fs::set_permissions(place.root.join("shut"), fs::Permissions::from_mode(0o700)).unwrap();
    assert!(matches!(found, Err(RecoverFault::Read(ReadFault::Unreadable(_)))));
}
