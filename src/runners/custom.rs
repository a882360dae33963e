//! A runner that the user's settings define: an image that speaks kew's own vocabulary, driven without a change to kew.
//!
//! It says what the image is given (arguments, credentials, models) and reads the published events. It cannot take the
//! name of a built-in runner, nor a credential that no agent may have.

use super::{Kind, Runner, shell::AgentEvent};
use crate::{name::EnvName, plan::world::Metering, stream::StreamEvent, text};

/// What stands for the model in the arguments.
const MODEL: &str = "{model}";

/// Names that never enter a container: kew brokers what they are for, or they would change what runs there.
const REFUSED: [&str; 9] = [
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "GH_ENTERPRISE_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
    "PATH",
    "HOME",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "BASH_ENV",
];

/// `[runners.<name>]` of the user's settings.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnRunner {
    /// Arguments after the image; `{model}` in them is the plan's model.
    #[serde(default)]
    pub args: Vec<String>,
    /// Names of the environment variables that are forwarded to the container, and no others.
    #[serde(default)]
    pub credentials: Vec<String>,
    /// Models that it can route, `*` at the end stands for any rest; empty = all.
    #[serde(default)]
    pub models: Vec<String>,
}

/// One such runner, checked.
#[derive(Debug)]
pub struct Custom {
    name: &'static str,
    args: Vec<String>,
    credentials: &'static [&'static str],
    models: Vec<String>,
}

impl Custom {
    /// Checks a definition; the error is a fragment that reads well after the key.
    ///
    /// Its words live as long as the process: settings are read once.
    pub fn new(name: &str, own: &OwnRunner) -> Result<Self, String> {
        if super::built_in().iter().any(|runner| runner.name() == name) {
            return Err("is the name of a runner of kew's own, which cannot be redefined".into());
        }
        let slug =
            name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-')) && !name.starts_with('-');
        if !slug || name.is_empty() {
            return Err("is not a runner's name: only a-z, 0-9 and - are allowed".into());
        }
        for credential in &own.credentials {
            if let Err(bad) = EnvName::new(credential.as_str()) {
                return Err(format!("has the credential `{}`, which {bad}", credential.escape_default()));
            }
            let kews = ["KEW_", "DOCKER_", "GIT_"].iter().any(|prefix| credential.starts_with(prefix));
            if kews || REFUSED.contains(&credential.as_str()) {
                return Err(format!("has the credential `{credential}`, which never enters a container"));
            }
        }
        let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
        let credentials: Vec<&'static str> = own.credentials.iter().map(|name| leak(name)).collect();
        Ok(Self {
            name: leak(name),
            args: own.args.clone(),
            credentials: Box::leak(credentials.into_boxed_slice()),
            models: own.models.clone(),
        })
    }
}

impl Runner for Custom {
    fn name(&self) -> &'static str {
        self.name
    }

    fn kind(&self) -> Kind {
        Kind::Agent
    }

    fn container_args(&self, model: Option<&str>) -> Vec<String> {
        let model = model.unwrap_or_default();
        self.args.iter().map(|arg| arg.replace(MODEL, model)).collect()
    }

    fn required_credentials(&self) -> &'static [&'static str] {
        self.credentials
    }

    fn program(&self) -> Option<&'static str> {
        // Only the image knows.
        None
    }

    fn route(&self, model: &str) -> Result<(), String> {
        if model.is_empty() || model.starts_with('-') || model.chars().any(char::is_control) {
            return Err("is not a model's name".into());
        }
        let fits = |shape: &String| match shape.strip_suffix('*') {
            Some(start) => model.starts_with(start),
            None => model == shape,
        };
        if self.models.is_empty() || self.models.iter().any(fits) {
            return Ok(());
        }
        Err(format!(
            "is none of those that `runners.{}.models` lists: {}",
            self.name,
            text::list(&self.models, "or")
        ))
    }

    fn metering(&self) -> Metering {
        Metering::Unknown
    }

    fn parse_line(&self, line: &[u8], out: &mut Vec<StreamEvent>) {
        AgentEvent::read(line, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(args: &[&str], credentials: &[&str], models: &[&str]) -> OwnRunner {
        let owned = |list: &[&str]| list.iter().map(|item| (*item).to_owned()).collect();
        OwnRunner { args: owned(args), credentials: owned(credentials), models: owned(models) }
    }

    #[test]
    fn it_is_driven_as_its_definition_says() {
        let mine =
            Custom::new("mine", &own(&["--model={model}", "-v"], &["MY_KEY"], &["big", "small-*"])).unwrap();
        assert_eq!(mine.container_args(Some("small-2")), ["--model=small-2", "-v"]);
        assert_eq!(mine.required_credentials(), ["MY_KEY"]);
        assert!(mine.route("big").is_ok() && mine.route("small-2").is_ok());
        assert!(mine.route("bigger").unwrap_err().contains("`big` or `small-*`"));
        assert!(mine.route("-x").is_err() && mine.route("").is_err());
        let mut events = Vec::new();
        mine.parse_line(br#"{"type":"output","text":"hello"}"#, &mut events);
        mine.parse_line(b"prose", &mut events);
        assert_eq!(events, [StreamEvent::Text { text: "hello".into() }]);
        assert!(!mine.free(), "what it does not tell is unknown, not free");
    }

    #[test]
    fn what_it_may_not_be_is_refused() {
        for (name, credentials, says) in [
            ("claude-code", vec![], "cannot be redefined"),
            ("shell", vec![], "cannot be redefined"),
            ("lemonade", vec![], "cannot be redefined"),
            ("Mine", vec![], "only a-z"),
            ("", vec![], "only a-z"),
            ("mine", vec!["GITHUB_TOKEN"], "never enters a container"),
            ("mine", vec!["LD_PRELOAD"], "never enters a container"),
            ("mine", vec!["DOCKER_HOST"], "never enters a container"),
            ("mine", vec!["lower"], "A-Z"),
        ] {
            let error = Custom::new(name, &own(&[], &credentials, &[])).unwrap_err();
            assert!(error.contains(says), "{name} {credentials:?}: {error}");
        }
    }
}
