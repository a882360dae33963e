//! Values of credentials: never in an argument, an error or a `Debug` output.

use std::{
    ffi::OsString,
    fmt::Debug,
    marker::PhantomData,
    sync::{Arc, Mutex},
    time::Duration,
};

use kew::{
    process::{
        child::{Child, Spawn},
        query::Query,
    },
    run::contained::{Contained, Engine},
    store::mask::Masker,
};

const SECRET: &str = "sk-ant-9f8e7d6c5b4a";

fn env() -> Vec<(OsString, OsString)> {
    let path = std::env::var_os("PATH").unwrap();
    vec![("ANTHROPIC_API_KEY".into(), SECRET.into()), ("PATH".into(), path)]
}

fn spawn(program: &str, script: &str) -> Spawn {
    let args = ["-c".into(), script.into()].into();
    Spawn { program: program.to_owned(), args, env: env(), tag: "t".to_owned() }
}

#[track_caller]
fn silent(shown: &str) {
    assert!(!shown.contains(SECRET), "{shown}");
}

#[test]
fn a_child_to_be_shows_names_only() {
    let shown = format!("{:?} {:#?}", spawn("sh", "true"), spawn("sh", "true"));
    silent(&shown);
    assert!(shown.contains("ANTHROPIC_API_KEY"), "{shown}");
}

#[test]
fn a_running_child_and_its_arguments_show_nothing() {
    let said = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&said);
    let take = move |line: Option<kew::lines::Line<'_>>| {
        hears.lock().unwrap().extend(line.map(|line| String::from_utf8_lossy(line.bytes).into_owned()));
    };
    let script = "tr '\\0' ' ' </proc/$$/cmdline; echo; echo \"$ANTHROPIC_API_KEY\"";
    let mut child = Child::start(spawn("sh", script), Box::new(take), Box::new(|_| ())).unwrap();
    silent(&format!("{child:?} {:?}", child.killer()));
    let exit = child.wait(Duration::from_secs(30)).unwrap();
    assert_eq!(exit.code, Some(0));
    let said = said.lock().unwrap();
    assert!(said[0].contains("sh -c tr"), "{said:?}");
    silent(&said[0]);
    assert_eq!(said[1], SECRET, "it is in the environment all the same");
}

#[test]
fn a_child_that_cannot_start_says_nothing() {
    let error = Child::start(spawn("/nonexistent", ""), Box::new(|_| ()), Box::new(|_| ())).unwrap_err();
    silent(&format!("{error} {error:?}"));
}

#[test]
fn short_commands_and_their_errors_show_names_only() {
    let with = |program: &str| {
        env().into_iter().fold(Query::new(program), |query, (name, value)| query.env(name, value))
    };
    let query = || with("sh").args(["-c", "exit 3"]);
    let shown = format!("{:?}", query());
    silent(&shown);
    assert!(shown.contains("ANTHROPIC_API_KEY"), "{shown}");
    silent(&format!("{:?}", query().run().unwrap()));
    let error = with("/nonexistent").run().unwrap_err();
    silent(&format!("{error} {error:?}"));
    let slow = with("sh").args(["-c", "sleep 60"]).deadline(Duration::from_millis(100));
    let error = slow.run().unwrap_err();
    silent(&format!("{error} {error:?}"));
}

#[test]
fn what_hides_values_does_not_show_them() {
    let shown = format!("{:?}", Masker::new([("ANTHROPIC_API_KEY", SECRET)]));
    silent(&shown);
    assert!(shown.contains("ANTHROPIC_API_KEY"), "{shown}");
}

/// `IS` is true for what can be shown by `{:?}`: an inherent constant wins over that of a trait.
struct Shows<T>(PhantomData<T>);

trait Otherwise {
    const IS: bool = false;
}

impl<T> Otherwise for Shows<T> {}

impl<T: Debug> Shows<T> {
    const IS: bool = true;
}

#[test]
fn what_holds_values_cannot_be_shown() {
    let shown = [Shows::<String>::IS, Shows::<Contained>::IS, Shows::<Engine>::IS];
    assert_eq!(shown, [true, false, false], "the first one says that the question is asked well");
}
