//! Texts that are valid somewhere, and texts that break parsers. Entry points: a list for each kind of text.

/// Used for every kind of text.
pub(crate) const WORDS: &[&str] = &[
    "",
    "{",
    "}",
    "[",
    "]",
    "[*]",
    "['",
    "']",
    "(",
    ")",
    ":",
    ",",
    ".",
    "/",
    "//",
    "..",
    "../",
    "?",
    "#",
    "&",
    "=",
    "==",
    "!=",
    "!",
    "%",
    "%2f",
    "%00",
    "\0",
    "\n",
    "\r\n",
    "\t",
    " ",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "null",
    "true",
    "-1",
    "1e999",
    "0",
    "é",
    "𝕏",
    "\u{feff}",
    "\u{202e}",
    "in",
    "notin",
    "exists",
    "*",
    "~1",
    "~0",
    "$patch",
    "apiVersion",
    "metadata",
    "name",
    "namespace",
    "default",
    "kube-system",
    "secrets",
    "status",
    "watch=true",
    "HTTP/1.1\r\nHost: x\r\n\r\n",
];

pub(crate) const NAMES: &[&str] = &[
    "a",
    "b",
    "sentinel",
    "default",
    "..",
    "../secrets/sentinel",
    "a/status",
    "a?watch=true",
    "",
    "kube-root-ca.crt",
    "a.b-c",
    "system:node",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
];

pub(crate) const NAMESPACES: &[&str] = &[
    "default",
    "default",
    "default",
    "kube-system",
    "",
    "..",
    "default/secrets",
    "*",
];

pub(crate) const GROUPS: &[&str] = &["", "", "", "", "apps", "windlass.dev", "../api"];
pub(crate) const VERSIONS: &[&str] =
    &["v1", "v1", "v1", "v1beta1", "v1/namespaces/kube-system", ""];
pub(crate) const KINDS: &[&str] = &[
    "ConfigMap",
    "ConfigMap",
    "ConfigMap",
    "Secret",
    "Namespace",
    "Deployment",
    "configmaps",
    "",
];

pub(crate) const OBJECTS: &[&str] = &[
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"},"data":{"k":"v"}}"#,
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","namespace":"default","labels":{"x":"y"},"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"u","controller":true}],"finalizers":["a/b"]},"binaryData":{"k":"AAAA"}}"#,
    r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"sentinel","namespace":"kube-system","resourceVersion":"1","uid":"x","managedFields":[]}}"#,
    r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"sentinel","namespace":"default"},"stringData":{"k":"v"}}"#,
    r#"{"metadata":{"name":"a","name":"b","namespace":"default","namespace":"kube-system"}}"#,
    r#"{"metadata":{"generateName":"a-"}}"#,
    r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"l"}}]}"#,
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    "null",
    "7",
];

pub(crate) const PATCHES: &[&str] = &[
    r#"{"data":{"k":"w","gone":null}}"#,
    r#"[{"op":"add","path":"/data/x","value":"y"},{"op":"remove","path":"/data/x"}]"#,
    r#"[{"op":"test","path":"/metadata/name","value":"a"},{"op":"copy","from":"/data","path":"/data/~0~1"},{"op":"move","from":"/data/k","path":"/data/l"}]"#,
    r#"{"metadata":{"finalizers":["a/b"],"$patch":"replace"},"data":{"$patch":"delete"}}"#,
    r#"{"metadata":{"name":"other","namespace":"kube-system","uid":"x","resourceVersion":"1"}}"#,
    r#"{"metadata":{"$setElementOrder/ownerReferences":[{"uid":"u"}],"ownerReferences":[{"uid":"u","$patch":"delete"}]}}"#,
];

pub(crate) const LABELS: &[&str] = &[
    "",
    "a=b",
    "a==b,c!=d",
    "a in (b, c), d notin (e), f, !g",
    "example.com/a=b",
    "a=",
    "a in ()",
    "test.windlass.dev/run",
];

pub(crate) const FIELDS: &[&str] = &[
    "",
    "metadata.name=a",
    "metadata.namespace!=default,metadata.name==b",
    "data.k=v",
    "status.phase=Running",
    "metadata.name=a\\,b",
];

pub(crate) const PATHS: &[&str] = &[
    "data.k",
    "spec.template.spec.volumes[*].configMap.name",
    "metadata.annotations['a.b/c']",
    "metadata.labels['a']",
    "[*]",
    "a..b",
    "",
    "a[0]",
];

pub(crate) const SUBRESOURCES: &[&str] = &[
    "status",
    "scale",
    "",
    "log",
    "../../secrets/sentinel",
    "proxy",
    "status?x=y",
];

/// Continue tokens, resource versions, uids, values of indexes, options' keys.
pub(crate) const TOKENS: &[&str] = &[
    "",
    "1",
    "0",
    "18446744073709551616",
    "eyJydiI6MSwic3RhcnQiOiJhIn0",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhXHUwMDAwIn0=",
    "AAAA",
    "0b5f8e0e-0000-4000-8000-000000000000",
    "default/a",
];
