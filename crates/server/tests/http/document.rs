//! The OpenAPI document and the routes are the same list, and the document is whole.

use serde_json::Value;

use crate::client::{get, request};
use crate::world::World;

/// Where routes are made.
const ROUTES: &str = include_str!("../../src/routes.rs");

fn document(world: &World) -> Value {
    let answer = get(world.address, "/openapi.json");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    answer.json()
}

/// Every method and path of a document.
fn operations(document: &Value) -> Vec<(String, String)> {
    let paths = document["paths"].as_object().expect("paths");
    let of_path = |(path, item): (&String, &Value)| -> Vec<_> {
        let methods = item.as_object().expect("methods").keys();
        methods.map(|method| (method.to_uppercase(), path.clone())).collect()
    };
    paths.iter().flat_map(of_path).collect()
}

/// The references of a document that lead nowhere.
fn dangling(document: &Value) -> Vec<String> {
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    references(document, &mut found);
    assert!(found.len() > 20, "{} references", found.len());
    let is_dangling =
        |name: &&str| name.strip_prefix('#').is_none_or(|path| document.pointer(path).is_none());
    found.into_iter().filter(is_dangling).map(str::to_owned).collect()
}

/// Routes of a source file that no document knows of: those that are not made by `routes!`.
fn undocumented(source: &str) -> Vec<&str> {
    let is_route = |line: &&str| line.contains(".route(") || line.contains(".route_service(");
    source.lines().map(str::trim).filter(is_route).collect()
}

#[test]
fn every_documented_operation_is_served_and_every_route_is_documented() {
    let world = World::new();
    let operations = operations(&document(&world));
    assert!(operations.len() >= 15, "{operations:?}");
    assert_eq!(undocumented(ROUTES), [""; 0], "use routes! instead, which documents a route");
    for (method, path) in &operations {
        let answer = request(world.address, method, &path.replace("{id}", "resp_none"), &[], b"{}");
        let is_known = answer.status != 405
            && (answer.status != 404 || answer.json()["error"]["code"] != "unknown_path");
        assert!(is_known, "{method} {path}: {}", answer.status);
    }
}

#[test]
fn every_operation_says_what_it_is_and_what_it_answers() {
    let world = World::new();
    let document = document(&world);
    assert_eq!(document["openapi"], "3.1.0");
    for (method, path) in operations(&document) {
        let operation = &document["paths"][&path][method.to_lowercase()];
        assert!(operation["summary"].is_string() && operation["tags"][0].is_string(), "{method} {path}");
        for status in ["200", "401", "431"] {
            assert!(operation["responses"][status]["description"].is_string(), "{method} {path}: {status}");
        }
        let reads = method == "POST";
        assert_eq!(operation["requestBody"].is_object(), reads, "{method} {path}");
        assert_eq!(operation["responses"]["413"].is_object(), reads, "{method} {path}");
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let world = World::new();
    assert_eq!(dangling(&document(&world)), [""; 0]);
}

#[test]
fn planted_faults_are_found() {
    let world = World::new();
    let mut broken = document(&world);
    broken["components"]["schemas"].as_object_mut().expect("schemas").remove("Completion");
    assert!(dangling(&broken).contains(&"#/components/schemas/Completion".to_owned()));
    assert_eq!(undocumented("a()\n    .route(\"/x\", get(x))\n").len(), 1);
}
