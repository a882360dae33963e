//! The image map of the user's settings file: keys are added, everything else in the file stays as it is.
//!
//! Invariant: a mapping that is there is never changed.

use std::{ffi::OsString, fs, io, io::Write as _};

use camino::{Utf8Path, Utf8PathBuf};
use toml_edit::{DocumentMut, Item, Table, value};

use super::SettingsError;

/// What became of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mapped {
    /// It is new.
    Added,
    /// It was there already.
    There,
    /// It was there with another image, and still is.
    Differs(String),
}

/// Where the user's settings file is, or would be. `env` looks variables up.
pub fn user_file(env: impl Fn(&str) -> Option<OsString>) -> Option<Utf8PathBuf> {
    let text =
        |name: &str| env(name).and_then(|value| value.into_string().ok()).filter(|value| !value.is_empty());
    let home = text("XDG_CONFIG_HOME").or_else(|| text("HOME").map(|home| format!("{home}/.config")))?;
    Some(Utf8PathBuf::from(home).join("kew/config.toml"))
}

/// Adds `sandbox.images.<runner>` for each pair that has no mapping yet. Gives the new text, and what became of each.
pub fn add_images(text: &str, images: &[(String, String)]) -> Result<(String, Vec<Mapped>), SettingsError> {
    let mut document: DocumentMut = text.parse().map_err(|error| SettingsError {
        message: format!("the settings file is not valid TOML: {error}"),
        help: None,
    })?;
    let no_table = |key: &str| {
        SettingsError::new(
            format!("`{key}` in the settings file is no table"),
            "make it one, or add the map by hand",
        )
    };
    let mut parent = Table::new();
    parent.set_implicit(true);
    let sandbox = document.entry("sandbox").or_insert(Item::Table(parent));
    let sandbox = sandbox.as_table_like_mut().ok_or_else(|| no_table("sandbox"))?;
    let map = sandbox.entry("images").or_insert(Item::Table(Table::new()));
    let map = map.as_table_like_mut().ok_or_else(|| no_table("sandbox.images"))?;
    let mut become_of = Vec::new();
    for (runner, image) in images {
        become_of.push(match map.get(runner) {
            Some(there) if there.as_str() == Some(image) => Mapped::There,
            Some(there) => Mapped::Differs(there.as_str().unwrap_or("?").to_owned()),
            None => {
                map.insert(runner, value(image.as_str()));
                Mapped::Added
            }
        });
    }
    let added = become_of.contains(&Mapped::Added);
    Ok((if added { document.to_string() } else { text.to_owned() }, become_of))
}

/// Replaces the file in one step, or makes it with its folder. A link stays a link; the mode stays as it was.
pub fn write(path: &Utf8Path, text: &str) -> io::Result<()> {
    let target = path.canonicalize_utf8().unwrap_or_else(|_| path.to_owned());
    let folder = target.parent().unwrap_or(Utf8Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    if let Ok(meta) = fs::metadata(&target) {
        file.as_file().set_permissions(meta.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(&target).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(runner, image)| ((*runner).to_owned(), (*image).to_owned())).collect()
    }

    #[test]
    fn an_empty_file_gets_the_whole_map() {
        let (text, became) = add_images("", &pairs(&[("claude-code", "a:1"), ("shell", "b:2")])).unwrap();
        assert_eq!(text, "[sandbox.images]\nclaude-code = \"a:1\"\nshell = \"b:2\"\n");
        assert_eq!(became, [Mapped::Added, Mapped::Added]);
        let (again, became) = add_images(&text, &pairs(&[("shell", "b:2")])).unwrap();
        assert_eq!((again, became), (text, vec![Mapped::There]));
    }

    #[test]
    fn what_is_there_stays_letter_by_letter() {
        let before = "# mine\n[sandbox]   # box\nmemory  = '8GiB'\n\n[sandbox.images]\nshell = 'own:3'  # keep\n\n[state]\ndir = \"/x\"\n";
        let (text, became) = add_images(before, &pairs(&[("shell", "b:2"), ("pi", "c:1")])).unwrap();
        assert_eq!(became, [Mapped::Differs("own:3".into()), Mapped::Added]);
        assert_eq!(text, before.replace("# keep\n", "# keep\npi = \"c:1\"\n"));
    }

    #[test]
    fn every_way_to_write_the_table_is_understood() {
        for before in [
            "sandbox = { memory = \"8GiB\" }\n",
            "sandbox.images = { pi = \"x\" }\n",
            "sandbox.images.pi = \"x\"\n",
            "[sandbox]\nimages.pi = \"x\"\n",
            "[sandbox]\nnetwork = \"none\"",
        ] {
            let (text, became) = add_images(before, &pairs(&[("shell", "b:2")])).unwrap();
            assert_eq!(became, [Mapped::Added], "{before}");
            let table: toml::Table = text.parse().unwrap();
            assert_eq!(table["sandbox"]["images"]["shell"].as_str(), Some("b:2"), "{text}");
            let old: toml::Table = before.parse().unwrap();
            let old =
                old["sandbox"].as_table().unwrap().keys().all(|key| table["sandbox"].get(key).is_some());
            assert!(old, "{text}");
        }
        for bad in ["sandbox = 3\n", "[sandbox]\nimages = []\n", "sandbox = "] {
            assert!(add_images(bad, &pairs(&[("shell", "b:2")])).is_err(), "{bad}");
        }
    }
}
