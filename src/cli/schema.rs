//! `kew schema`: the JSON schemas, generated from the types that read the data.

use clap::ValueEnum;
use schemars::generate::SchemaSettings;

use super::put;
use crate::{config::Settings, error::Failure, event::Stamped, plan, runners, verdict};

/// Which schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// A plan.
    Plan,
    /// `kew.toml` and the user's settings file.
    Settings,
    /// A reviewer's sidecar.
    Verdict,
    /// A line of `--format json`.
    Event,
    /// A line of an image's stdout, for runners that speak kew's own vocabulary.
    AgentEvent,
}

/// Prints one.
pub fn print(which: Which) -> Result<u8, Failure> {
    put(&text(which));
    Ok(0)
}

/// The text of a schema, as it is in `schemas/`.
pub fn text(which: Which) -> String {
    match which {
        Which::Plan => plan::schema::schema_text(),
        Which::Settings => pretty("kew settings", of::<Settings>()),
        Which::Verdict => pretty("kew verdict", verdict::schema()),
        Which::Event => pretty("kew event", of::<Stamped>()),
        Which::AgentEvent => pretty("kew agent event", runners::shell::event_schema()),
    }
}

/// Draft 7, which editors know best.
fn of<T: schemars::JsonSchema>() -> schemars::Schema {
    SchemaSettings::draft07().into_generator().into_root_schema_for::<T>()
}

fn pretty(title: &str, mut schema: schemars::Schema) -> String {
    schema.insert("title".into(), title.into());
    let text = serde_json::to_string_pretty(&schema).expect("a schema is JSON");
    format!("{text}\n")
}
