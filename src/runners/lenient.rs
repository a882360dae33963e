//! JSON fields whose type may change under us: a field that is not what was expected is nothing, never an error.
//!
//! Agents add and change fields with every release. A line is lost only if it is no JSON or names a field twice. Text
//! without escapes is borrowed from the line; parts that nobody asked for are skipped, not built.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::de::{
    Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
    value::{MapAccessDeserializer, SeqAccessDeserializer},
};

/// A leaf: text, number or truth value; anything else is [`Scalar::Nothing`].
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Scalar<'a> {
    /// Absent, null, an object or an array.
    #[default]
    Nothing,
    /// `true`, `false`.
    Bool(bool),
    /// A whole number that is not negative.
    Whole(u64),
    /// Any other number.
    Number(f64),
    /// Text.
    Text(Cow<'a, str>),
}

/// An object, or nothing.
#[derive(Debug, Clone)]
pub struct Object<T>(pub Option<T>);

/// An array, or an empty one.
#[derive(Debug, Clone)]
pub struct List<T>(pub Vec<T>);

impl Scalar<'_> {
    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The text, if it is one that says something.
    pub fn words(&self) -> Option<&str> {
        self.text().filter(|text| !text.trim().is_empty())
    }

    /// The count, if it is one.
    pub fn whole(&self) -> Option<u64> {
        if let Self::Whole(number) = self { Some(*number) } else { None }
    }

    /// The number, if it is a finite one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(number) => Some(*number as f64),
            Self::Number(number) if number.is_finite() => Some(*number),
            _ => None,
        }
    }

    /// The truth value, if it is one.
    pub fn truth(&self) -> Option<bool> {
        if let Self::Bool(truth) = self { Some(*truth) } else { None }
    }
}

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Leaf;
        impl<'de> Visitor<'de> for Leaf {
            type Value = Scalar<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Scalar::Nothing)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
                Ok(Scalar::Bool(value))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
                Ok(Scalar::Whole(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
                Ok(u64::try_from(value).map_or(Scalar::Number(value as f64), Scalar::Whole))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
                Ok(Scalar::Number(value))
            }
            fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
                Ok(Scalar::Text(Cow::Borrowed(value)))
            }
            fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
                Ok(Scalar::Text(Cow::Owned(value.to_owned())))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                IgnoredAny.visit_seq(seq).map(|_| Scalar::Nothing)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                IgnoredAny.visit_map(map).map(|_| Scalar::Nothing)
            }
        }
        deserializer.deserialize_any(Leaf)
    }
}

/// Visitor that builds from one container and takes everything else as nothing.
struct Container<T, const ARRAY: bool>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const ARRAY: bool> Visitor<'de> for Container<T, ARRAY> {
    type Value = Option<T>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        if ARRAY {
            return T::deserialize(SeqAccessDeserializer::new(seq)).map(Some);
        }
        IgnoredAny.visit_seq(seq).map(|_| None)
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        if ARRAY {
            return IgnoredAny.visit_map(map).map(|_| None);
        }
        T::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Container::<T, false>(PhantomData)).map(Self)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let items = deserializer.deserialize_any(Container::<Vec<T>, true>(PhantomData))?;
        Ok(Self(items.unwrap_or_default()))
    }
}
