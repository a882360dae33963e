//! What a tree is said to be made of.

use std::os::unix::fs::symlink;

use kew::git::tree::{Lfs, Shape, Submodules, Tree};

use crate::support::{World, commit, git, head};

fn words(tree: &Tree, shape: Shape) -> Vec<&'static str> {
    tree.unfit(shape).iter().map(|unfit| unfit.word).collect()
}

#[test]
fn reserved_names_are_found_at_any_depth_and_in_any_case() {
    let world = World::new();
    let user = world.user();
    let clean = commit(&user, "kew-prompt.txt", "not reserved");
    for path in [".kew-prompt.txt", "a/b/.KEW-Review-Verdict.json", ".Kew-x/file"] {
        commit(&user, path, "planted");
    }
    let kew = world.open();
    let base = kew.base();
    kew.mirror.ensure(&kew.user, &clean).unwrap();
    assert!(Tree::of_mirror(&kew.mirror, &clean).unwrap().unfit(Shape::default()).is_empty());
    let tree = Tree::of_mirror(&kew.mirror, &base).unwrap();
    assert_eq!(tree.reserved, [".Kew-x/file", ".kew-prompt.txt", "a/b/.KEW-Review-Verdict.json"]);
    assert_eq!(words(&tree, Shape { submodules: Submodules::Empty, lfs: Lfs::Pointers }), ["planted"]);
}

#[test]
fn submodules_and_files_of_lfs_are_found_and_may_be_taken_as_they_are() {
    let world = World::new();
    let user = world.user();
    commit(&user, ".gitattributes", "# filter=lfs was here\n*.txt text\n*.lock -filter\n");
    commit(&user, "docs/gitattributes", "*.bin filter=lfs\n");
    let kew = world.open();
    let tree = Tree::of_user(&kew.user, &head(&user)).unwrap();
    assert_eq!((&tree.lfs, &tree.submodules), (&vec![], &vec![]), "a comment and another name are none");

    commit(&user, "art/deep/.gitattributes", "*.png -text\n*.psd  filter=lfs diff=lfs merge=lfs -text\n");
    let id = head(&user);
    git(&user, &["update-index", "--add", "--cacheinfo", &format!("160000,{id},vendor/a")]);
    git(&user, &["update-index", "--add", "--cacheinfo", &format!("160000,{id},vendor/b\nc")]);
    git(&user, &["commit", "-q", "-m", "submodules"]);
    let base = kew.base();
    for tree in [Tree::of_user(&kew.user, &base).unwrap(), Tree::of_mirror(&kew.mirror, &base).unwrap()] {
        assert_eq!(tree.lfs, ["art/deep/.gitattributes"]);
        assert_eq!(tree.submodules, ["vendor/a", "vendor/b\\nc"]);
        assert_eq!(words(&tree, Shape::default()), ["submodules", "lfs"]);
        assert_eq!(words(&tree, Shape { submodules: Submodules::Empty, lfs: Lfs::Refuse }), ["lfs"]);
        assert_eq!(words(&tree, Shape { submodules: Submodules::Empty, lfs: Lfs::Pointers }), [""; 0]);
    }
    // The checkout has the folders, empty, and the work of an agent beside them comes home.
    let work = kew.checkout(&base, "work");
    assert!(work.join("vendor/a").read_dir_utf8().unwrap().next().is_none());
    assert_eq!(git(&work, &["config", "--get-regexp", "^core.bare"]), "core.bare false");
    let done = commit(&work, "mine", "m");
    assert_eq!(kew.collect(&work, &base).unwrap().head, Some(done));
}

#[test]
fn room_is_counted_in_blocks() {
    let world = World::empty("sha1");
    let user = world.user();
    commit(&user, "empty", "");
    commit(&user, "one", "1");
    commit(&user, "more", &"x".repeat(5000));
    symlink("one", user.join("link")).unwrap();
    git(&user, &["add", "link"]);
    git(&user, &["commit", "-q", "-m", "link"]);
    let kew = world.open();
    let base = kew.base();
    assert_eq!(Tree::of_user(&kew.user, &base).unwrap().bytes, 4096 + 8192 + 4096);
    let (all, reached) = (kew.user.object_bytes().unwrap(), kew.user.reached_bytes(&base).unwrap());
    assert!(0 < reached && reached <= all, "{reached} of {all}");
}
