use super::*;
use crate::{
    registry::Registry,
    request::api_version,
    types::{decode, fill_zero_values, kind},
};
use std::collections::BTreeSet;

/// Bytes and JSON of the same objects, both written by Go.
const FIXTURES: &str = include_str!("../../tests/data/protobuf.txt");
/// The same with one object per kind, all of its fields filled; `protobuf_kinds.go` beside it writes it.
const EVERY_KIND: &str = include_str!("../../tests/data/protobuf_kinds.txt");

fn read_body(body: &[u8]) -> Result<Value, ApiError> {
    from_protobuf(body, |why| ApiError::bad_request(why))
}

fn fixtures() -> impl Iterator<Item = (Vec<u8>, Value)> {
    read_fixtures(FIXTURES)
}

fn read_fixtures(lines: &'static str) -> impl Iterator<Item = (Vec<u8>, Value)> {
    lines.lines().map(|line| {
        let (hex, json) = line.split_once('\t').expect("two columns");
        let digits: Vec<u8> =
            hex.chars().map(|digit| u8::try_from(digit.to_digit(16).expect("hex")).unwrap()).collect();
        let bytes = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        (bytes, serde_json::from_str(json).expect("JSON"))
    })
}

#[test]
fn what_go_writes_is_read_as_what_go_writes_in_json() {
    for (bytes, expected) in fixtures().chain(read_fixtures(EVERY_KIND)) {
        let object = read_body(&bytes).expect("is read");
        let text = |name: &str| expected[name].as_str().expect("a string").to_owned();
        let ty = kind(&text("apiVersion"), &text("kind")).expect("a built-in kind");
        let decoded = decode(ty, object).expect("is decoded");
        assert_eq!(decoded.unknown, Vec::<String>::new());
        let mut object = decoded.object;
        fill_zero_values(ty, &mut object);
        assert_eq!(object, expected);
    }
}

#[test]
fn every_built_in_kind_is_among_them() {
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    let filled: BTreeSet<(String, String)> = read_fixtures(EVERY_KIND)
        .map(|(_, object)| (text(&object["apiVersion"]), text(&object["kind"])))
        .collect();
    let mut missing = Vec::new();
    for resource in Registry::new().all() {
        for version in &resource.versions {
            let kind = (api_version(resource.group(), version), resource.kind.clone());
            missing.extend((!filled.contains(&kind)).then_some(kind));
        }
    }
    assert_eq!(missing, Vec::new());
    assert_eq!((fixtures().count(), filled.len()), (16, 45));
}

#[test]
fn json_of_go_survives_decoding() {
    for (_, expected) in fixtures().chain(read_fixtures(EVERY_KIND)) {
        let text = |name: &str| expected[name].as_str().expect("a string").to_owned();
        let ty = kind(&text("apiVersion"), &text("kind")).expect("a built-in kind");
        let mut object = decode(ty, expected.clone()).expect("is decoded").object;
        fill_zero_values(ty, &mut object);
        assert_eq!(object, expected);
    }
}

#[test]
fn cut_off_and_foreign_bodies_are_refused() {
    assert_eq!(
        read_body(b"{}").expect_err("is refused").message,
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    );
    assert_eq!(
        read_body(b"k8s\0\x0a\x07\x0a\x02v1\x12\x01X").expect_err("is refused").message,
        "no kind \"X\" is registered for version \"v1\""
    );
    for (bytes, _) in fixtures() {
        for end in 0..bytes.len() {
            // Some cuts fall between two fields of the envelope.
            let _ = read_body(&bytes[..end]);
        }
        let cut = &bytes[..bytes.len() - 8];
        assert_eq!(read_body(cut).expect_err("is refused").code, http::StatusCode::BAD_REQUEST);
    }
}

#[test]
fn endless_nesting_is_refused() {
    // JSONSchemaProps.not is field 28.
    let schema = crate::types::table::schema_props().expect("is there");
    let mut not = Vec::new();
    for _ in 0..2000 {
        let mut outer = vec![0xe2, 0x01];
        push_length(&mut outer, not.len());
        outer.extend(not);
        not = outer;
    }
    assert!(structure(schema, &not, &mut Object::new(), MAX_DEPTH).is_err());
}

fn push_length(bytes: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        bytes.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    bytes.push(u8::try_from(length).unwrap());
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(
        which in 0_usize..16,
        changes in proptest::collection::vec((0_usize..4096, proptest::prelude::any::<u8>()), 0..20),
        tail in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40),
    ) {
        let (mut bytes, _) = fixtures().nth(which).expect("16 fixtures");
        for (place, byte) in changes {
            let length = bytes.len();
            bytes[place % length] = byte;
        }
        bytes.extend(&tail);
        if let Ok(object) = read_body(&bytes) {
            let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
            if let Some(ty) = kind(&text("apiVersion"), &text("kind")) {
                let _ = decode(ty, object);
            }
        }
        let mut body = PREFIX.to_vec();
        body.extend(tail);
        let _ = read_body(&body);
    }
}
