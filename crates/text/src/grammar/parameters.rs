//! The values of a call's arguments: from a JSON schema to Python's notation.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::compile::{literal, loose_schema, schema as strict_schema};

/// What the schema compiler checks in a text; other formats are hints for people.
const FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"];

/// What the schema compiler checks in a number.
const BOUNDS: [&str; 5] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];

/// No number is larger than all that a float can count: digits without end are what a lost model writes.
const LARGEST_NUMBER: i64 = 999_999_999_999_999;

/// Writes schemas as Lark, and keeps the rules that they share.
///
/// What has one notation in both languages, such as numbers, and what chat templates write as JSON, such as mappings, is
/// left to the schema's own compiler. So is what has no simple form: a text with a pattern is a text of JSON then.
pub(super) struct Parameters<'a> {
    prefix: String,
    root: &'a Map<String, Value>,
    /// Whether what is not understood is refused.
    is_strict: bool,
    /// References met so far; each is a rule.
    references: Vec<String>,
}

impl<'a> Parameters<'a> {
    pub(super) fn new(prefix: String, root: &'a Map<String, Value>, is_strict: bool) -> Parameters<'a> {
        Parameters { prefix, root, is_strict, references: Vec::new() }
    }

    /// A value that a schema accepts.
    pub(super) fn value(&mut self, schema: &Value) -> String {
        let Some(fields) = schema.as_object() else { return "value".to_owned() };
        if let Some(choices) = fields.get("const").map(std::slice::from_ref) {
            return choice(choices);
        }
        if let Some(choices) = fields.get("enum").and_then(Value::as_array).filter(|list| !list.is_empty()) {
            return choice(choices);
        }
        if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
            return self.reference(reference);
        }
        for several in ["anyOf", "oneOf"] {
            if let Some(schemas) =
                fields.get(several).and_then(Value::as_array).filter(|list| !list.is_empty())
            {
                return self.alternatives(schemas);
            }
        }
        match fields.get("type") {
            Some(Value::String(name)) => self.typed(name, fields),
            Some(Value::Array(names)) => {
                let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
                self.any_of_types(&names, fields)
            }
            _ if fields.contains_key("allOf") || fields.contains_key("properties") => self.json(schema),
            _ => "value".to_owned(),
        }
    }

    /// The rules of all references, those that they lead to included.
    pub(super) fn rules(mut self) -> String {
        let mut text = String::new();
        let mut done = 0;
        while done < self.references.len() {
            let reference = self.references[done].clone();
            let target = self.target(&reference).cloned();
            let value = match target {
                Some(schema) => self.value(&schema),
                None if reference == "#" => self.json(&Value::Object(self.root.clone())),
                // The schema's compiler names what is missing.
                None => self.json(&json!({"$ref": reference})),
            };
            let _ = writeln!(text, "{}_{done}: {value}", self.prefix);
            done += 1;
        }
        text
    }

    fn reference(&mut self, reference: &str) -> String {
        let known = self.references.iter().position(|other| other == reference);
        let index = known.unwrap_or_else(|| {
            self.references.push(reference.to_owned());
            self.references.len() - 1
        });
        format!("{}_{index}", self.prefix)
    }

    fn target(&self, reference: &str) -> Option<&'a Value> {
        let mut steps = reference.strip_prefix("#/")?.split('/');
        let first = self.root.get(steps.next()?)?;
        steps.try_fold(first, |value, step| value.get(step.replace("~1", "/").replace("~0", "~")))
    }

    fn alternatives(&mut self, schemas: &[Value]) -> String {
        let values: Vec<String> = schemas.iter().map(|schema| self.value(schema)).collect();
        format!("({})", values.join(" | "))
    }

    fn any_of_types(&mut self, names: &[&str], fields: &Map<String, Value>) -> String {
        let values: Vec<String> = names.iter().map(|name| self.typed(name, fields)).collect();
        if values.is_empty() { "value".to_owned() } else { format!("({})", values.join(" | ")) }
    }

    fn typed(&mut self, name: &str, fields: &Map<String, Value>) -> String {
        let of_type = |keys: &[&str]| {
            let mut schema: Map<String, Value> =
                fields.iter().filter(|(key, _)| keys.contains(&key.as_str())).map(clone_pair).collect();
            schema.insert("type".to_owned(), name.into());
            Value::Object(schema)
        };
        match name {
            "string" if is_plain_text(fields) => "TEXT".to_owned(),
            "string" => self.json(&of_type(&["minLength", "maxLength", "pattern", "format"])),
            "boolean" => "(\"True\" | \"False\")".to_owned(),
            "null" => "\"None\"".to_owned(),
            "array" if !fields.contains_key("prefixItems") => self.list(fields),
            "integer" | "number" if !BOUNDS.iter().any(|key| fields.contains_key(*key)) => {
                name.to_uppercase()
            }
            "integer" | "number" => self.json(&bounded(of_type(&BOUNDS))),
            _ => {
                let mut schema = fields.clone();
                schema.insert("type".to_owned(), name.into());
                self.json(&Value::Object(schema))
            }
        }
    }

    fn list(&mut self, fields: &Map<String, Value>) -> String {
        let item = fields.get("items").map_or("value".to_owned(), |items| self.value(items));
        let count = |key: &str| fields.get(key).and_then(Value::as_u64);
        let (least, most) = (count("minItems").unwrap_or(0), count("maxItems"));
        let more = match most {
            Some(0) => return "\"[]\"".to_owned(),
            Some(most) => format!("{{{},{}}}", least.saturating_sub(1), most - 1),
            None if least > 1 => format!("{{{},}}", least - 1),
            None => "*".to_owned(),
        };
        let items = format!("({item}) (\", \" ({item})){more}");
        if least == 0 { format!("\"[\" ({items})? \"]\"") } else { format!("\"[\" {items} \"]\"") }
    }

    /// JSON by the schema's own compiler, with the definitions that references need.
    fn json(&self, schema: &Value) -> String {
        let mut schema = if self.is_strict { strict_schema(schema) } else { loose_schema(schema) };
        for definitions in ["$defs", "definitions"] {
            if let (Some(fields), Some(found)) = (schema.as_object_mut(), self.root.get(definitions)) {
                fields.entry(definitions).or_insert_with(|| found.clone());
            }
        }
        format!("%json {schema}")
    }
}

fn clone_pair((key, value): (&String, &Value)) -> (String, Value) {
    (key.clone(), value.clone())
}

/// A schema of a number with both bounds.
fn bounded(mut schema: Value) -> Value {
    let bounds =
        [("minimum", "exclusiveMinimum", -LARGEST_NUMBER), ("maximum", "exclusiveMaximum", LARGEST_NUMBER)];
    for (bound, exclusive, largest) in bounds {
        if schema.get(bound).is_none() && schema.get(exclusive).is_none() {
            schema[bound] = largest.into();
        }
    }
    schema
}

fn is_plain_text(fields: &Map<String, Value>) -> bool {
    let has_format = fields.get("format").and_then(Value::as_str).is_some_and(|name| FORMATS.contains(&name));
    !has_format && !["minLength", "maxLength", "pattern"].iter().any(|key| fields.contains_key(*key))
}

fn choice(values: &[Value]) -> String {
    let values: Vec<String> = values.iter().map(|value| literal(&python(value))).collect();
    format!("({})", values.join(" | "))
}

/// A value as the model writes it.
fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => {
            let escaped = text.replace('\\', "\\\\").replace('\'', "\\'");
            format!("'{}'", escaped.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t"))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(python).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}
