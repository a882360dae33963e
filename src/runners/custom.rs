//! A runner that the user's settings define: an image that speaks kew's own vocabulary, driven without a change to kew.
//!
//! It says what the image is given (arguments, credentials, models) and reads the published events. It cannot take the
//! name of a built-in runner, nor a credential that no agent may have.

use super::{Kind, Runner, host::HostCommand, shell::AgentEvent};
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
    /// Hosts that its agent cannot do without, each as `host` or `host:port`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Host mode only (`sandbox.enabled = false`): the program and its first arguments; `args` follow, the prompt is on its
    /// stdin. Without it the runner does not run there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// One such runner, checked.
#[derive(Debug)]
pub struct Custom {
    name: &'static str,
    args: Vec<String>,
    credentials: &'static [&'static str],
    models: Vec<String>,
    command: Vec<String>,
    hosts: &'static [&'static str],
}

/// Whether this is a host's name in small letters, with or without a port. No scheme, no wildcard, no address.
fn host(word: &str) -> Result<(), &'static str> {
    let (name, port) = word.split_once(':').map_or((word, None), |(name, port)| (name, Some(port)));
    if word.contains("//") || word.contains('/') {
        return Err("is an address of a page: write the host's name alone");
    }
    if name.contains('*') {
        return Err("has a wildcard: name each host");
    }
    if port.is_some_and(|port| port.starts_with('0') || port.parse::<u16>().is_err()) {
        return Err("has a port that is none: write `host:443`");
    }
    if name.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err("has capital letters: write it in small ones");
    }
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    };
    if name.len() > 253 || !name.split('.').all(label) {
        return Err("is not a host's name, as in `api.example.org`");
    }
    if name.rsplit('.').next().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit())) {
        return Err("is a number: name the host");
    }
    Ok(())
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
        if own.command.first().is_some_and(String::is_empty) {
            return Err("has an empty `command`".into());
        }
        for word in &own.allow {
            host(word).map_err(|why| format!("has `allow` with `{}`, which {why}", word.escape_default()))?;
        }
        let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
        let credentials: Vec<&'static str> = own.credentials.iter().map(|name| leak(name)).collect();
        Ok(Self {
            name: leak(name),
            args: own.args.clone(),
            credentials: Box::leak(credentials.into_boxed_slice()),
            models: own.models.clone(),
            command: own.command.clone(),
            hosts: Box::leak(own.allow.iter().map(|name| leak(name)).collect::<Vec<_>>().into_boxed_slice()),
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

    fn build_command(&self, model: Option<&str>) -> Result<HostCommand, String> {
        let Some((program, first)) = self.command.split_first() else {
            return Err(format!("has no `runners.{}.command`, the program to start on the host", self.name));
        };
        let first: Vec<&str> = first.iter().map(String::as_str).collect();
        Ok(HostCommand::stdin(program, &first, self.container_args(model)))
    }

    fn required_credentials(&self) -> &'static [&'static str] {
        self.credentials
    }

    fn program(&self) -> Option<&'static str> {
        // Only the image knows.
        None
    }

    fn hosts(&self) -> &'static [&'static str] {
        self.hosts
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
        OwnRunner {
            args: owned(args),
            credentials: owned(credentials),
            models: owned(models),
            ..OwnRunner::default()
        }
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
    fn its_hosts_are_names_and_nothing_else() {
        let with = |word: &str| OwnRunner { allow: vec![word.into()], ..OwnRunner::default() };
        for good in ["api.example.org", "localhost", "a-1.example.org:8443", "xn--bcher-kva.example"] {
            assert_eq!(Custom::new("mine", &with(good)).map(|mine| mine.hosts()), Ok(&[good][..]), "{good}");
        }
        for (bad, says) in [
            ("https://api.example.org", "host's name alone"),
            ("api.example.org/v1", "host's name alone"),
            ("*.example.org", "wildcard"),
            ("API.example.org", "capital letters"),
            ("example.org:0", "port"),
            ("example.org:65536", "port"),
            ("example.org:", "port"),
            ("10.0.0.1", "number"),
            ("", "not a host's name"),
            ("a..b", "not a host's name"),
            ("-a.org", "not a host's name"),
            ("a b", "not a host's name"),
            ("a.org.", "not a host's name"),
        ] {
            let error = Custom::new("mine", &with(bad)).unwrap_err();
            assert!(error.contains(says) && error.contains("`allow`"), "{bad}: {error}");
        }
    }

    #[test]
    fn it_has_a_command_on_the_host_only_if_it_is_given_one() {
        let own =
            OwnRunner { command: vec!["mine".into(), "go".into()], ..own(&["-m", "{model}"], &[], &[]) };
        let command = Custom::new("mine", &own).unwrap().build_command(Some("big")).unwrap();
        assert_eq!(
            (command.program.as_str(), command.argv("s")),
            ("mine", ["go", "-m", "big"].map(String::from).to_vec())
        );
        let none = Custom::new("mine", &OwnRunner::default()).unwrap().build_command(None).unwrap_err();
        assert!(none.contains("`runners.mine.command`"), "{none}");
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
