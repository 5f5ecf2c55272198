//! Expressions and what they come to.

use serde_json::{Value, json};

use super::*;
use crate::schema::{Schema, Schemas};

fn run(text: &str, value: &Value, schema: Schema<'_>) -> Result<bool, Failure> {
    let program = Program::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(
        program.lacks().collect::<Vec<_>>(),
        Vec::<&str>::new(),
        "{text}"
    );
    let variables = [("self", Val::of(value, schema))];
    program.run(&variables, &mut BUDGET.clone())?.truth()
}

fn holds(text: &str, value: &Value) {
    assert_eq!(run(text, value, Schema::any()), Ok(true), "{text}");
}

#[test]
fn operators_bind_as_the_language_says() {
    for text in [
        "1 + 2 * 3 == 7 && !(1 > 2) || false",
        "-5 / 2 == -2 && -5 % 2 == -1 && 7u / 2u == 3u && 0x1F == 31",
        "1 == 1.0 && 1 < 1.5 && 2 in [1, 2] && !('x' in {'a': 1})",
        "(true ? 'a' : 'b') == 'a' && 'a' + \"b\" == 'ab' && r'\\d' == '\\\\d'",
        "'\\u00e9\\n' == 'é\\n' && b'a' == bytes('a') && '''x'y''' == 'x\\'y'",
        "false || [1, 2].exists(x, x == 2) // a remark",
        "-9223372036854775808 < 0 && 1e3 == 1000.0 && .5 + .5 == 1.0",
        "(1 / 0 == 1) || true",
        "!((1 / 0 == 1) && false)",
    ] {
        holds(text, &json!({}));
    }
}

#[test]
fn macros_go_over_lists_and_keys() {
    let value = json!({"l": [1, 2, 3], "m": {"a": 1, "b": 2}});
    for text in [
        "self.l.all(x, x > 0) && self.l.exists(x, x == 3) && self.l.exists_one(x, x > 2)",
        "self.l.map(x, x * 2) == [2, 4, 6] && self.l.map(x, x > 1, x) == [2, 3] && self.l.filter(x, x < 2) == [1]",
        "self.m.all(k, self.m[k] > 0) && self.m.map(k, k) == ['a', 'b']",
        "self.l.all(i, v, v == i + 1) && self.m.exists(k, v, k == 'b' && v == 2)",
        "self.l.transformList(i, v, i * v) == [0, 2, 6] && self.m.transformMap(k, v, v + 1) == {'a': 2, 'b': 3}",
        "[[1], [2]].all(x, x.all(y, y > 0))",
        "self.l.exists(x, x / 0 == 1 || x == 2) && [0, 1].exists(x, 1 / x == 1)",
    ] {
        holds(text, &value);
    }
}

#[test]
fn fields_are_there_or_not() {
    let value = json!({"a": {"b": null}, "a-b": 1, "namespace": "n", "o": {"x": 1}});
    for text in [
        "has(self.a) && has(self.a.b) && self.a.b == null && !has(self.c)",
        "self.a__dash__b == 1 && self.__namespace__ == 'n' && self['a-b'] == 1",
        "self.?o.?x.orValue(2) == 1 && self.?o.?y.orValue(2) == 2 && !self.?z.x.hasValue() && self[?'z'].or(optional.of(3)).value() == 3",
        "self.?o.optMap(o, o.x + 1).value() == 2 && !self.?z.optMap(z, z).hasValue()",
        "optional.ofNonZeroValue('') == optional.none()",
    ] {
        holds(text, &value);
    }
    let missing = run("self.c == 1", &value, Schema::any());
    assert_eq!(missing, Err(Failure::new("no such key: c")));
}

#[test]
fn values_have_the_type_of_their_schema() {
    let mut all = Schemas::default();
    let id = all.add(&json!({"type": "object", "properties": {
        "n": {"type": "number"}, "d": {"type": "string", "format": "duration"}, "t": {"type": "string", "format": "date-time"},
        "s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "l": {"type": "array", "items": {"type": "string"}}, "b": {"type": "string", "format": "byte"}}}));
    let value = json!({"n": 1, "d": "90m", "t": "2026-01-01T00:00:00Z", "s": ["a", "b"], "l": ["a", "b"], "b": "YQ=="});
    for text in [
        "type(self.n) == double && self.d == duration('1h30m') && self.d.getMinutes() == 90",
        "self.t.getFullYear() == 2026 && self.t + duration('1h') > self.t && self.t.getDayOfWeek() == 4",
        "self.s == ['b', 'a'] && self.l != ['b', 'a'] && self.b == b'a' && string(self.d) == '5400s'",
    ] {
        assert_eq!(run(text, &value, all.at(id)), Ok(true), "{text}");
    }
}

#[test]
fn functions_of_texts_lists_and_networks() {
    for text in [
        "'Abc'.lowerAscii() == 'abc' && 'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b' && ' a '.trim() == 'a'",
        "'abcabc'.indexOf('c') == 2 && 'abcabc'.lastIndexOf('c') == 5 && 'abc'.substring(1) == 'bc' && 'abc'.charAt(0) == 'a'",
        "'a1b22'.find('[0-9]+') == '1' && 'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'ab'.matches('^a') && 'aa'.replace('a', 'b', 1) == 'ba'",
        "'%s has %d (%.1f%%)'.format(['a', 3, 0.5]) == 'a has 3 (0.5%)'",
        "[3, 1].sum() == 4 && [3, 1].max() == 3 && ![3, 1].isSorted()",
        "sets.contains([1, 2], [1]) && !sets.equivalent([1], [2]) && sets.intersects([1], [1])",
        "isIP('::1') && !isIP('1.2.3') && ip('127.0.0.1').isLoopback() && ip('::1').family() == 6 && ip('8.8.8.8').isGlobalUnicast()",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && string(cidr('10.1.2.3/8').masked()) == '10.0.0.0/8'",
        "!isCIDR('10.0.0.0/33') && cidr('::1/128').ip() == ip('::1') && cidr('0.0.0.0/0').containsIP('1.2.3.4')",
        "isURL('https://a.b:80/c?x=1') && url('https://a.b:80/c?x=1').getQuery() == {'x': ['1']} && url('https://a.b').getEscapedPath() == '' && !isURL('a b') && url('https://[::1]:8/').getHostname() == '::1'",
        "quantity('1Gi') > quantity('1G') && quantity('1').add(1).sub(quantity('500m')).compareTo(quantity('1.5')) == 0 && !isQuantity('x') && quantity('5').asInteger() == 5",
        "!format.dns1123Label().validate('abc').hasValue() && format.dns1123Label().validate('A_').hasValue()",
        "duration('-1.5s') < duration('0') && timestamp('2026-01-01T00:00:00Z') - timestamp('2025-12-31T00:00:00Z') == duration('24h')",
        "int('5') == 5 && double('1.5') == 1.5 && string(1.5) == '1.5' && bool('true') && uint(3) == 3u && type('') == string",
    ] {
        holds(text, &json!({}));
    }
}

#[test]
fn what_is_no_expression_is_refused() {
    for text in [
        "self.a ==",
        "self.a = 1",
        "self.a.all(x)",
        "'a",
        "has(self)",
        "1 2",
        "a.map(1, 2)",
        "[1",
        "{1}",
        "",
    ] {
        assert!(Program::parse(text).is_err(), "{text}");
    }
    let deep = "(".repeat(5000) + "1" + &")".repeat(5000);
    assert!(Program::parse(&deep).is_err());
    let program = Program::parse("self.a.b.rotate(1) && other(2)").unwrap();
    assert_eq!(program.lacks().collect::<Vec<_>>(), ["other", "rotate"]);
}

#[test]
fn an_evaluation_has_a_budget() {
    let value = json!((0..3000).collect::<Vec<i32>>());
    let spent = run(
        "self.all(x, self.all(y, self.all(z, x + y + z >= 0)))",
        &value,
        Schema::any(),
    );
    assert_eq!(spent, Err(Failure::Cost));
}
