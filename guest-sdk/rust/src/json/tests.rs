//! The reader, held against `serde_json`.

use super::*;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Both readers accept the same texts and return the same values.
#[track_caller]
fn same(text: &str) {
    let (ours, theirs) = (from_str::<Value>(text), serde_json::from_str::<Value>(text));
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "{text}"),
        (Err(_), Err(_)) => {}
        (ours, theirs) => panic!("{text}: {ours:?}, but serde_json says {theirs:?}"),
    }
}

#[test]
fn it_reads_what_serde_json_reads() {
    let values = [
        "null",
        "true",
        "false",
        " [ ] ",
        "{}",
        "[1,2]",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\":1,}",
        "{\"a\"}",
        "{a:1}",
        "{\"a\":1 \"b\":2}",
        "[1]]",
        "[[1]",
        "nul",
        "nulll",
        "truefalse",
        "",
        " ",
        "\u{feff}1",
        "[null,true,{\"a\":[{}]}]",
        "{\"a\":1,\"a\":2}",
        "\"a",
        "\"\u{1}\"",
        r#""\n\t\r\b\f\/\\\"""#,
        r#""\u0041\u00e9""#,
        r#""\ud83d\ude00""#,
        r#""\ud83d""#,
        r#""\ud83d\u0041""#,
        r#""\ude00""#,
        r#""\u12""#,
        r#""\x""#,
        r#""é\n😀""#,
        r#""\"#,
    ];
    values.into_iter().for_each(same);
}

#[test]
fn it_reads_the_numbers_that_serde_json_reads() {
    let numbers = [
        "0",
        "-0",
        "-0.0",
        "1",
        "-1",
        "01",
        "-01",
        "1.",
        ".5",
        "-",
        "+1",
        "1e5",
        "1E-5",
        "1e+5",
        "1e",
        "0.1",
        "-2.5e3",
        "1e309",
        "-1e309",
        "1e-400",
        "0e999999999999",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "123456789.123456",
        "3.141592653589793",
        "0.000001",
        "1e22",
        "100000000000000000000",
    ];
    numbers.into_iter().for_each(same);
}

#[test]
fn extreme_numbers_are_read_to_a_few_units_in_the_last_place() {
    for text in ["1.7e308", "2.5e-300", "123456789012345678901234567890.5"] {
        let (ours, true_value): (f64, f64) = (from_str(text).unwrap(), text.parse().unwrap());
        let off = (ours - true_value).abs() / true_value;
        assert!(off < 64.0 * f64::EPSILON, "{text}: {ours}");
    }
}

#[test]
fn texts_cut_and_changed_anywhere_are_judged_as_by_serde_json() {
    let text = json!({
        "metadata": {"name": "a\nb", "labels": {"é": "😀"}, "generation": 7, "x": -1.5e3},
        "list": [1, [true, false, null], {}, "", []],
    })
    .to_string();
    for (at, _) in text.char_indices() {
        same(&text[..at]);
        for junk in ["", " ", "\"", "\\", "}", "]", ",", ":", "0", "-", "e"] {
            let rest = text[at..].chars().skip(1).collect::<String>();
            same(&format!("{}{junk}{rest}", &text[..at]));
        }
    }
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(from_str::<Value>(&nested(128)).is_ok());
    for text in [nested(129), "[".repeat(1 << 20), "{\"a\":".repeat(1 << 20)] {
        let fault = from_str::<Value>(&text).unwrap_err().to_string();
        assert!(fault.contains("too deep"), "{fault}");
        let unread = from_str::<Vec<serde::de::IgnoredAny>>(&text);
        assert!(unread.is_err());
    }
}

#[derive(Debug, PartialEq, Deserialize)]
enum Shape {
    Point,
    Circle(f64),
    Line(i32, i32),
    Box { side: u8 },
}

#[test]
fn enums_are_read_in_every_form() {
    let shapes =
        r#"["Point", {"Point": null}, {"Circle": 1.5}, {"Line": [1, -2]}, {"Box": {"side": 3}}]"#;
    let shapes: Vec<Shape> = from_str(shapes).unwrap();
    let wanted = [
        Shape::Point,
        Shape::Point,
        Shape::Circle(1.5),
        Shape::Line(1, -2),
        Shape::Box { side: 3 },
    ];
    assert_eq!(shapes, wanted);
    for wrong in [
        r#""Circle""#,
        "{}",
        r#"{"Point":null,"Box":1}"#,
        r#""Cube""#,
        r#"{"Line":[1]}"#,
        "7",
    ] {
        assert!(from_str::<Shape>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn keys_may_be_numbers_flags_and_variants() {
    let numbers: BTreeMap<i8, String> = from_str(r#"{"-3": "a", "4": "b"}"#).unwrap();
    assert_eq!(numbers[&-3], "a");
    assert!(from_str::<BTreeMap<u8, String>>(r#"{"300": "a"}"#).is_err());
    let flags: BTreeMap<bool, u8> = from_str(r#"{"true": 1}"#).unwrap();
    assert_eq!(flags[&true], 1);
    #[derive(PartialEq, Eq, PartialOrd, Ord, Deserialize)]
    enum Side {
        Left,
    }
    let sides: BTreeMap<Side, u8> = from_str(r#"{"Left": 1}"#).unwrap();
    assert_eq!(sides[&Side::Left], 1);
}

#[derive(Debug, Deserialize)]
struct Config<'a> {
    #[serde(borrow)]
    word: &'a str,
    count: Option<u8>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

#[test]
fn what_needs_no_copy_is_borrowed_and_options_may_be_null() {
    let text = r#"{"word": "blue", "count": null, "more": [1]}"#;
    let config: Config<'_> = from_str(text).unwrap();
    assert!(
        text.as_bytes()
            .as_ptr_range()
            .contains(&config.word.as_ptr())
    );
    assert_eq!((config.count, &config.rest["more"]), (None, &json!([1])));
}

#[test]
fn faults_say_what_and_where_without_the_value() {
    let fault = |text| from_str::<Config<'_>>(text).unwrap_err().to_string();
    assert_eq!(fault("{\"word\": }"), "word: expected a string");
    assert_eq!(fault("{}"), "missing field `word` (at byte 2)");
    #[derive(Debug, Deserialize)]
    struct Counted {
        #[serde(rename = "count")]
        _count: u8,
    }
    let fault = |text| from_str::<Counted>(text).unwrap_err().to_string();
    assert_eq!(fault(r#"{"count":"hunter2"}"#), "count: expected a value");
    assert_eq!(
        fault(r#"{"count":1.5}"#),
        "count: expected u8, found a number"
    );
    assert_eq!(
        fault(r#"{"count":300}"#),
        "count: expected u8, found another value"
    );
    let fault = |text| {
        let read: Result<BTreeMap<String, Vec<Counted>>, _> = from_str(text);
        read.unwrap_err().to_string()
    };
    assert_eq!(
        fault(r#"{"a":[],"b":[{"count":1},{"count":true}]}"#),
        "b[1].count: expected a value"
    );
    assert_eq!(fault(r#"{"b":[{}]}"#), "b[0]: missing field `count`");
}

#[test]
fn plain_text_ends_at_the_first_byte_that_is_none() {
    let plain = [
        'a',
        '!',
        '#',
        '[',
        ']',
        ' ',
        '\u{7f}',
        '\u{80}',
        'ü',
        '\u{1f600}',
    ];
    for length in 0..24 {
        let text: String = plain.iter().cycle().take(length).collect();
        assert_eq!(plain_end(text.as_bytes(), 0), text.len());
        for end in ['"', '\\', '\n', '\0', '\u{1f}'] {
            let ended = format!("{text}{end}\"{text}");
            assert_eq!(plain_end(ended.as_bytes(), 0), text.len(), "{ended:?}");
        }
    }
}
