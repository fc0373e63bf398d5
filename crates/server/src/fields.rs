//! Shapes that JSON fields take in this API and that no plain type has.

use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{OneOfBuilder, Schema};
use utoipa::{PartialSchema, ToSchema};

/// One string, or a list of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OneOrMany(pub(crate) Vec<String>);

impl PartialSchema for OneOrMany {
    fn schema() -> RefOr<Schema> {
        OneOfBuilder::new().item(String::schema()).item(Vec::<String>::schema()).into()
    }
}

impl ToSchema for OneOrMany {}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrManyVisitor)
    }
}

struct OneOrManyVisitor;

impl<'de> Visitor<'de> for OneOrManyVisitor {
    type Value = OneOrMany;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of strings")
    }

    fn visit_str<E>(self, text: &str) -> Result<OneOrMany, E> {
        Ok(OneOrMany(vec![text.to_owned()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, sequence: A) -> Result<OneOrMany, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(sequence)).map(OneOrMany)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_is_a_list_of_one() {
        let read = |value| serde_json::from_value::<OneOrMany>(value).map(|many| many.0);
        assert_eq!(read(json!("a")).unwrap(), ["a"]);
        assert_eq!(read(json!(["a", "b"])).unwrap(), ["a", "b"]);
        let error = read(json!(3)).unwrap_err().to_string();
        assert!(error.contains("expected a string or a list of strings"), "{error}");
    }
}
