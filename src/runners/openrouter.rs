//! The shape of models that are reached through OpenRouter: the one provider whose credential these runners get.
//!
//! Not a list of models: OpenRouter has hundreds and changes them. What is refused here would fail inside the container
//! anyway, minutes later, or be taken for an option.

/// How a runner writes an OpenRouter model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `openrouter/maker/model`: the CLI has many providers and wants its name.
    WithProvider,
    /// `maker/model`, as OpenRouter itself writes it.
    Bare,
}

/// How one gets the credential.
pub const ADVICE: &str =
    "make a key with a limit in OpenRouter's settings, and export it as OPENROUTER_API_KEY";

/// The provider's name where it is a part of the model.
const PROVIDER: &str = "openrouter";

impl Shape {
    /// The shape for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::WithProvider => "`openrouter/<maker>/<model>`",
            Self::Bare => "`<maker>/<model>` of OpenRouter",
        }
    }

    /// Whether the model has this shape; else why not and what to write.
    pub fn check(self, cli: &str, model: &str) -> Result<(), String> {
        if model.is_empty() {
            return Err(format!(
                "is empty; name a model such as `{}`",
                self.example("anthropic/claude-sonnet-4.5")
            ));
        }
        if model.starts_with('-') {
            return Err(format!("starts with -, which {cli} would take as an option"));
        }
        if model.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err("has a space or a control character in it".into());
        }
        if let Some(odd) = model.chars().find(|c| !(c.is_ascii_alphanumeric() || "._:/@~-".contains(*c))) {
            return Err(format!("has `{odd}` in it, which no model has; {}", self.wanted(cli)));
        }
        let parts: Vec<&str> = model.split('/').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return Err(format!("has an empty part; {}", self.wanted(cli)));
        }
        match (self, parts.as_slice()) {
            (Self::WithProvider, [PROVIDER, _, _, ..]) | (Self::Bare, [_, _]) => Ok(()),
            (Self::Bare, [PROVIDER, maker, rest @ ..]) => Err(format!(
                "names the provider, which {cli} is told apart; write `{maker}/{}`",
                rest.join("/")
            )),
            (_, [bare]) => {
                let made = self.example(&format!("{}/{bare}", maker_of(bare)));
                Err(format!(
                    "is a bare name, which {cli} cannot route; {}, here perhaps `{made}`",
                    self.wanted(cli)
                ))
            }
            (Self::WithProvider, [PROVIDER, _]) => Err(format!("names no maker; {}", self.wanted(cli))),
            (Self::WithProvider, _) => Err(format!(
                "does not go through OpenRouter, and {cli} gets no other credential; write `{}`",
                self.example(model)
            )),
            (Self::Bare, _) => Err(format!("has too many parts; {}", self.wanted(cli))),
        }
    }

    fn wanted(self, cli: &str) -> String {
        format!("{cli} takes `{}`", self.example("maker/model"))
    }

    fn example(self, model: &str) -> String {
        match self {
            Self::WithProvider => format!("{PROVIDER}/{model}"),
            Self::Bare => model.to_owned(),
        }
    }
}

/// Who makes a model of that name, as OpenRouter spells it; a guess for a hint.
fn maker_of(bare: &str) -> &'static str {
    const MAKERS: &[(&str, &str)] = &[
        ("claude", "anthropic"),
        ("sonnet", "anthropic"),
        ("opus", "anthropic"),
        ("haiku", "anthropic"),
        ("gpt", "openai"),
        ("o1", "openai"),
        ("o3", "openai"),
        ("o4", "openai"),
        ("gemini", "google"),
        ("gemma", "google"),
        ("grok", "x-ai"),
        ("llama", "meta-llama"),
        ("mistral", "mistralai"),
        ("devstral", "mistralai"),
        ("deepseek", "deepseek"),
        ("qwen", "qwen"),
        ("kimi", "moonshotai"),
        ("glm", "z-ai"),
    ];
    MAKERS.iter().find(|(start, _)| bare.starts_with(start)).map_or("maker", |(_, maker)| maker)
}
