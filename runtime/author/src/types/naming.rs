//! Names of code, made of names of kinds and fields. Entry points: [`pascal`], [`snake`], [`singular`] and [`plural`].

/// Words that end like plurals of others, with what one of them is called: themselves, or what no rule says.
const SINGULARS: [(&str, &str); 22] = [
    ("aliases", "alias"),
    ("aws", "aws"),
    ("axes", "axis"),
    ("biases", "bias"),
    ("buses", "bus"),
    ("caches", "cache"),
    ("canvases", "canvas"),
    ("children", "child"),
    ("cookies", "cookie"),
    ("ecs", "ecs"),
    ("efs", "efs"),
    ("eks", "eks"),
    ("indices", "index"),
    ("kubernetes", "kubernetes"),
    ("matrices", "matrix"),
    ("os", "os"),
    ("postgres", "postgres"),
    ("rabbitmqs", "rabbitmq"),
    ("series", "series"),
    ("species", "species"),
    ("statuses", "status"),
    ("vertices", "vertex"),
];

/// The words of a name: at capitals, and at what is no letter or digit.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let all: Vec<char> = name.chars().collect();
    for (at, &letter) in all.iter().enumerate() {
        if !letter.is_ascii_alphanumeric() {
            words.push(String::new());
            continue;
        }
        let before = at.checked_sub(1).map(|at| all[at]);
        let after_lower = before.is_some_and(|it| it.is_ascii_lowercase() || it.is_ascii_digit());
        let ends_capitals = before.is_some_and(|it| it.is_ascii_uppercase())
            && all.get(at + 1).is_some_and(char::is_ascii_lowercase)
            && !is_plural(&all[at + 1..]);
        if letter.is_ascii_uppercase() && (after_lower || ends_capitals) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.push(letter);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether capitals end here with the `s` of a plural: `clusterIPs`.
fn is_plural(rest: &[char]) -> bool {
    rest.first() == Some(&'s') && !rest.get(1).is_some_and(char::is_ascii_lowercase)
}

/// `fieldName` as `FieldName`. A digit at the beginning gets an `N` before it.
pub(super) fn pascal(name: &str) -> String {
    let capital = |word: String| {
        let mut letters = word.chars();
        let first = letters.next().map(|it| it.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    let name: String = words(name).into_iter().map(capital).collect();
    match name.chars().next() {
        Some(first) if first.is_ascii_alphabetic() => name,
        _ => format!("N{name}"),
    }
}

/// `fieldName` as `field_name`. A digit at the beginning gets an `n` before it.
pub(super) fn snake(name: &str) -> String {
    let words: Vec<String> = words(name)
        .into_iter()
        .map(|word| word.to_ascii_lowercase())
        .collect();
    let name = words.join("_");
    match name.chars().next() {
        Some(first) if first.is_ascii_alphabetic() => name,
        _ => format!("n{name}"),
    }
}

/// What one of several is called: `ports` as `port`. A name that is no plural stays.
pub(super) fn singular(name: &str) -> String {
    let last = words(name).pop().unwrap_or_default();
    let Some(before) = name.strip_suffix(&last) else {
        return name.to_owned();
    };
    let lower = last.to_ascii_lowercase();
    if let Some((_, one)) = SINGULARS.iter().find(|(plural, _)| *plural == lower) {
        let begins = last.chars().next().unwrap_or_default();
        return format!("{before}{begins}{}", &one[1..]);
    }
    format!("{before}{}", singular_word(&last))
}

/// The plural that code generators give a kind, whose lower-case name this is.
pub fn plural(singular: &str) -> String {
    let hisses = singular.ends_with(['s', 'x', 'z']) || singular.ends_with("ch");
    if hisses || singular.ends_with("sh") {
        return format!("{singular}es");
    }
    match singular.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{singular}s"),
    }
}

/// By the rules of English. An abbreviation such as `DNS` or `tls` is no plural.
fn singular_word(word: &str) -> String {
    let is_vowel = |letter: char| "aeiouyAEIOUY".contains(letter);
    let ends = |all: &[&str]| all.iter().any(|end| word.ends_with(end));
    let Some(less) = word.strip_suffix('s') else {
        return word.to_owned();
    };
    let is_of_capitals = less.chars().any(|letter| letter.is_ascii_uppercase())
        && !less.chars().any(|letter| letter.is_ascii_lowercase());
    if is_of_capitals {
        return less.to_owned();
    }
    if ends(&["ss", "us", "is"]) || !less.contains(is_vowel) {
        return word.to_owned();
    }
    if let Some(stem) = word.strip_suffix("ies").filter(|stem| stem.len() > 1) {
        return format!("{stem}y");
    }
    if ends(&["sses", "ches", "shes", "xes", "zzes"]) {
        return word[..word.len() - 2].to_owned();
    }
    less.to_owned()
}

/// A name that is not taken yet: the name itself, or with a number after it.
pub(super) fn unused(name: String, is_taken: impl Fn(&str) -> bool) -> String {
    if !is_taken(&name) {
        return name;
    }
    let numbered = (2..).map(|number| format!("{name}{number}"));
    let mut free = numbered.filter(|name| !is_taken(name));
    free.next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_words() {
        assert_eq!(snake("readyReplicas"), "ready_replicas");
        assert_eq!(snake("HTTPRoute"), "http_route");
        assert_eq!(snake("x-kubernetes.io/a b"), "x_kubernetes_io_a_b");
        assert_eq!(snake("clusterIPs"), "cluster_ips");
        assert_eq!(snake("podIPsAndMore"), "pod_ips_and_more");
        assert_eq!(snake("HTTPSize"), "http_size");
        assert_eq!(pascal("podCIDRs"), "PodCIDRs");
        assert_eq!(pascal("$ref"), "Ref");
        assert_eq!(pascal("2nd"), "N2nd");
        assert_eq!(pascal("-"), "N");
    }

    #[test]
    fn one_of_several_has_a_name() {
        for (several, one) in [
            ("ports", "port"),
            ("envFrom", "envFrom"),
            ("ingressPolicies", "ingressPolicy"),
            ("addresses", "address"),
            ("hostAliases", "hostAlias"),
            ("conditionStatuses", "conditionStatus"),
            ("matches", "match"),
            ("prefixes", "prefix"),
            ("databases", "database"),
            ("sizes", "size"),
            ("podIPs", "podIP"),
            ("URLs", "URL"),
            ("tls", "tls"),
            ("DNS", "DNS"),
            ("ingress", "ingress"),
            ("status", "status"),
            ("indices", "index"),
            ("timeSeries", "timeSeries"),
            ("s", "s"),
            ("", ""),
        ] {
            assert_eq!(singular(several), one, "{several}");
        }
    }
}
