//! The plan's JSON schema, for editors: made from the raw types, never written by hand.
//!
//! Draft 7, since that is what TOML language servers read best. It knows keys, types, words and patterns; what only a
//! whole plan can tell (names, circles, images) is left to the check.

use schemars::{
    generate::SchemaSettings,
    transform::{RecursiveTransform, Transform},
};
use serde_json::Value;

use super::raw::RawPlan;

/// The schema of a plan file.
pub fn schema() -> Value {
    let generator = SchemaSettings::draft07().into_generator();
    let mut schema = generator.into_root_schema_for::<RawPlan>();
    // TOML has no null: an absent key is an absent key.
    RecursiveTransform(forget_null).transform(&mut schema);
    schema.insert("title".into(), "kew plan".into());
    schema.to_value()
}

fn forget_null(schema: &mut schemars::Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(words)) = object.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    let Some(Value::Array(choices)) = object.get_mut("anyOf") else { return };
    choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
    if let [only] = choices.as_slice() {
        let only = only.clone();
        object.remove("anyOf");
        // Draft 7 ignores what stands beside a `$ref`, so it is wrapped.
        object.insert("allOf".into(), Value::Array(vec![only]));
    }
}

/// The schema's text as it is committed: indented, with a final line break.
pub fn schema_text() -> String {
    let text = serde_json::to_string_pretty(&schema()).expect("a JSON value is always writable");
    text + "\n"
}
