//! What a node starts from: results of what it needs, in plan order; what was reviewed; the base.

use kew::run::executor::Source;

use super::rig::{BASE, Played, commit, id, jobs, rig, votes};

fn source(played: &Played, node: &str) -> Source {
    played.engine().source(&id(node), 1).unwrap()
}

/// What a node brought.
fn head(played: &Played, node: &str) -> kew::name::CommitId {
    played.end(node).head.clone().unwrap_or_else(|| panic!("`{node}` brought nothing"))
}

#[test]
fn without_needs_it_is_the_base() {
    let played = jobs(&["a", "b"]).commits(&["a"]).play();
    assert_eq!(source(&played, "a"), Source::One(commit(BASE)));
    assert_eq!(source(&played, "b"), Source::One(commit(BASE)));
    assert_eq!(played.end("a").input, Some(commit(BASE)));
}

#[test]
fn one_need_gives_its_result_which_is_its_input_if_it_brought_nothing() {
    let played = jobs(&["a", "b < a", "c < b"]).commits(&["a"]).play();
    assert_eq!(source(&played, "b"), Source::One(head(&played, "a")));
    assert_eq!(source(&played, "c"), Source::One(head(&played, "a")), "`b` brought nothing");
    assert_eq!(played.end("b").head, None);
}

#[test]
fn several_needs_are_merged_in_plan_order_whatever_was_written() {
    let plan = |needs: &str| jobs(&["a", "b", "c", &format!("d < {needs}")]).commits(&["a", "b", "c"]).play();
    let parts = |played: &Played| {
        let part = |node: &str| (id(node), head(played, node));
        Source::Merge(vec![part("a"), part("b"), part("c")])
    };
    let (one, two) = (plan("a, b, c"), plan("c, a, b"));
    assert_eq!(source(&one, "d"), parts(&one));
    assert_eq!(source(&two, "d"), parts(&two));
    assert_eq!(source(&one, "d"), source(&two, "d"));
}

#[test]
fn a_reviewer_gets_the_reviewed_commit_and_its_result_is_that() {
    let played = jobs(&["x", "a < x", "r ? a < x", "b < r, a", "c < r"])
        .commits(&["x", "a"])
        .script("r", votes("approve"))
        .play();
    let reviewed = head(&played, "a");
    assert_eq!(source(&played, "r"), Source::One(reviewed.clone()), "although it needs `x` too");
    let both = Source::Merge(vec![(id("a"), reviewed.clone()), (id("r"), reviewed.clone())]);
    assert_eq!(source(&played, "b"), both);
    assert_eq!(source(&played, "c"), Source::One(reviewed));
}

#[test]
fn a_reviewers_own_commits_are_dropped() {
    let mut script = votes("approve");
    script.commits = 3;
    let played = jobs(&["a", "r ? a", "b < r"]).commits(&["a"]).script("r", script).play();
    assert_eq!((played.end("r").head.clone(), played.end("r").commits), (None, 0));
    assert_eq!(source(&played, "b"), Source::One(head(&played, "a")));
}

#[test]
fn from_chooses_another_start_and_needs_are_order_alone() {
    let nodes = r#"
        [nodes.a]
        prompt = "x"
        [nodes.b]
        needs = ["a"]
        prompt = "x"
        [nodes.fresh]
        needs = ["b"]
        from = "base"
        prompt = "x"
        [nodes.back]
        needs = ["b"]
        from = "a"
        prompt = "x"
    "#;
    let played = rig(nodes).commits(&["a", "b"]).play();
    assert_eq!(source(&played, "fresh"), Source::One(commit(BASE)));
    assert_eq!(source(&played, "back"), Source::One(head(&played, "a")));
    assert_eq!(played.ran()[..2], ["a", "b"]);
}

#[test]
fn a_reviewers_prompt_names_the_commit_and_its_own_nonce() {
    let played = jobs(&["a", "r ? a", "s ? a"])
        .commits(&["a"])
        .script("r", votes("approve"))
        .script("s", votes("approve"))
        .play();
    let nonce = |node: &str| {
        let prompt = played.prompt(node);
        assert!(prompt.contains(head(&played, "a").as_str()), "{prompt}");
        let at = prompt.find("KEW_NONCE=").expect("a nonce") + "KEW_NONCE=".len();
        prompt[at..].split_whitespace().next().unwrap().trim_matches('\'').to_owned()
    };
    let (r, s) = (nonce("r"), nonce("s"));
    assert_eq!((r.len(), s.len()), (32, 32));
    assert_ne!(r, s);
    assert!(!played.prompt("a").contains("KEW_NONCE"));
}

#[test]
fn the_record_of_an_attempt_says_what_ran() {
    let played = jobs(&["a"]).play();
    let row = played.start("a");
    assert_eq!((row.runner.as_str(), row.image_id.as_str(), row.key.attempt), ("shell", "sha256:shell", 1));
    assert!(row.container.starts_with("kew-20261201-093000-k3f9-a-1-"), "{}", row.container);
    assert!(played.end("a").ended >= row.started);
}
