//! Every kind of problem, as its author reads it: one plan in `fixtures/plans` and one snapshot each.
//!
//! A fixture's name begins with the code that it is about; a new kind of problem needs a new fixture.

mod plan_world;

use std::{collections::BTreeSet, fs, path::Path};

use camino::{Utf8Path, Utf8PathBuf};
use kew::plan::{
    error::{Code, Problems, render::Paint},
    parse_and_check,
    world::{ImageGap, PromptFault, RunnerFacts, World},
};
use plan_world::TestWorld;

fn fixtures() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/plans");
    let mut plans: Vec<_> = fs::read_dir(folder)
        .expect("the fixtures are there")
        .map(|entry| entry.expect("a fixture").path())
        .map(|path| {
            (path.file_stem().unwrap().to_str().unwrap().to_string(), fs::read_to_string(&path).unwrap())
        })
        .collect();
    plans.sort();
    plans
}

/// The same world where agents are processes of the host.
struct OnHost;

impl World for OnHost {
    fn runners(&self) -> Vec<String> {
        TestWorld.runners()
    }

    fn runner(&self, name: &str) -> Option<RunnerFacts> {
        TestWorld.runner(name)
    }

    fn route(&self, runner: &str, model: &str) -> Result<(), String> {
        TestWorld.route(runner, model)
    }

    fn image(&self, runner: &str, toolchain: Option<&str>) -> Result<(), ImageGap> {
        unreachable!("nobody asks for an image of {runner} {toolchain:?}")
    }

    fn contained(&self) -> bool {
        false
    }

    fn prompt_file(&self, path: &Utf8Path) -> Result<(String, Utf8PathBuf), PromptFault> {
        TestWorld.prompt_file(path)
    }
}

fn problems(text: &str) -> Problems {
    let world: &dyn World = if text.starts_with("# on the host") { &OnHost } else { &TestWorld };
    parse_and_check("plans/x.toml", text, world).expect_err("the fixture has a problem")
}

#[test]
fn each_fixture_is_told_as_its_snapshot_says() {
    for (name, text) in fixtures() {
        let problems = problems(&text);
        let codes: Vec<&str> = problems.list().iter().map(|problem| problem.code.as_str()).collect();
        assert!(codes.contains(&&name[..5]), "{name} tells only {codes:?}");
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name, problems.to_string());
        });
    }
}

#[test]
fn each_code_has_a_fixture() {
    let told: BTreeSet<&str> = fixtures()
        .iter()
        .flat_map(|(_, text)| {
            problems(text).list().iter().map(|problem| problem.code.as_str()).collect::<Vec<_>>()
        })
        .collect();
    let all: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(told, all);
}

#[test]
fn codes_are_numbered_once_and_explained() {
    let numbers: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(numbers.len(), Code::ALL.len());
    for code in Code::ALL {
        assert!(code.meaning().ends_with('.') || code.meaning().contains("E0"), "{code:?}");
    }
}

#[test]
fn problems_are_in_file_order_and_inside_the_text() {
    for (name, text) in fixtures() {
        let problems = problems(&text);
        let places: Vec<(usize, usize)> = problems.located().iter().map(|p| (p.line, p.column)).collect();
        assert!(places.is_sorted(), "{name}: {places:?}");
        for located in problems.located() {
            let line = text.split('\n').nth(located.line - 1).expect("the line exists");
            assert!(located.column <= line.chars().count() + 1, "{name}: {located:?}");
            assert!(
                (located.line, located.column) <= (located.end_line, located.end_column),
                "{name}: {located:?}"
            );
        }
    }
}

#[test]
fn nothing_hidden_reaches_the_terminal() {
    let hostile =
        fixtures().into_iter().find(|(name, _)| name.contains("hostile")).expect("the fixture is there").1;
    let told = problems(&hostile).to_string();
    assert!(told.chars().all(|c| c == '\n' || !c.is_control()), "{told:?}");
    assert!(!told.contains('\u{202e}') && !told.contains("##["), "{told:?}");
}

#[test]
fn json_has_places_for_editors() {
    let problems = problems(
        "version = 1\nepic = { name = \"é\", nmae = 1 }\n[nodes.a]\nrunner = \"shell\"\nprompt = \"é\" # é\nneeds = [\"é\", \"é\"]\n",
    );
    insta::assert_json_snapshot!(problems.located());
}

#[test]
fn colour_only_adds_colour() {
    let text = &fixtures()[0].1;
    let problems = problems(text);
    let coloured = problems.render(Paint::Colour);
    assert!(coloured.contains("\x1b[1;31merror[E0101]\x1b[0m"));
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\x1b') {
        plain.push_str(before);
        rest = after.split_once('m').expect("a colour ends with m").1;
    }
    assert_eq!(plain + rest, problems.render(Paint::Plain));
}

#[test]
fn line_ends_of_windows_change_nothing() {
    for (name, text) in fixtures() {
        // Inside of a multi-line string the bytes differ, and so may the parser's own words about them.
        if text.contains("\"\"\"") || name.starts_with("E0101") {
            continue;
        }
        let windows = text.replace('\n', "\r\n");
        assert_eq!(problems(&text).to_string(), problems(&windows).to_string(), "{name}");
    }
}
