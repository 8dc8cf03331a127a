//! What results have in common where their JSON differs from their fields: maps and pairs as rows, addresses as text.
//! For `#[serde(serialize_with)]`, with the same form in `#[schemars(with)]`.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// The field in the form `R`.
///
/// # Errors
/// Those of the serializer.
pub fn shown<'a, T, R, S>(field: &'a T, serializer: S) -> Result<S::Ok, S::Error>
where
    R: From<&'a T> + Serialize,
    S: Serializer,
{
    R::from(field).serialize(serializer)
}

/// The field in the form `R`, where there is one.
///
/// # Errors
/// Those of the serializer.
pub fn optional<'a, T, R, S>(field: &'a Option<T>, serializer: S) -> Result<S::Ok, S::Error>
where
    R: From<&'a T> + Serialize,
    S: Serializer,
{
    field.as_ref().map(R::from).serialize(serializer)
}

/// Every item of the field in the form `R`.
///
/// # Errors
/// Those of the serializer.
pub fn rows<'a, T, R, S>(field: &'a T, serializer: S) -> Result<S::Ok, S::Error>
where
    &'a T: IntoIterator<Item: Into<R>>,
    R: Serialize,
    S: Serializer,
{
    serializer.collect_seq(field.into_iter().map(Into::<R>::into))
}

/// A number in hexadecimal, as text: a reader that keeps numbers as doubles would round it.
#[derive(Clone, Copy, Debug, JsonSchema)]
#[schemars(inline)]
pub struct Hex(#[schemars(with = "String")] u64);

impl From<&u64> for Hex {
    fn from(number: &u64) -> Hex {
        Hex(*number)
    }
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#x}", self.0))
    }
}
