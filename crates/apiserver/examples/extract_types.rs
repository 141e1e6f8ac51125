//! Writes the tables `types.txt` and `resources.txt` of this crate's `data` directory from the Go modules of
//! one Kubernetes version. Run by hand when that version changes:
//!
//! ```text
//! cargo run -p hostler-apiserver --example extract_types -- KUBERNETES API APIMACHINERY APIEXTENSIONS DATA
//! ```
//!
//! The first four are the directories of the modules `k8s.io/kubernetes`, `k8s.io/api`, `k8s.io/apimachinery`
//! and `k8s.io/apiextensions-apiserver`, the last is the `data` directory. Go's struct tags say the JSON name,
//! the protobuf number, what is left out when empty and how strategic merge works; the published OpenAPI
//! document says what is required, what kind of list a list is, and which resources there are. Only such
//! facts are taken over. How the tables are read is described in `src/types/table.rs`.

use regex::Regex;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The packages of `k8s.io/api` that are served.
const API_GROUPS: [&str; 17] = [
    "admissionregistration",
    "apps",
    "authentication",
    "authorization",
    "autoscaling",
    "batch",
    "certificates",
    "coordination",
    "core",
    "discovery",
    "events",
    "networking",
    "node",
    "policy",
    "rbac",
    "scheduling",
    "storage",
];

/// A Go package and where its types stand in the OpenAPI document.
struct Package {
    /// `apps/v1`
    name: String,
    group: String,
    import: String,
    openapi: String,
    files: Vec<PathBuf>,
}

struct Field {
    /// Empty for an embedded struct whose fields are the outer one's in JSON.
    json: String,
    number: u32,
    /// In the table's notation.
    ty: String,
    omit_empty: bool,
    omit_zero: bool,
    strategy: String,
    merge_key: String,
}

enum Declared {
    Struct {
        fields: Vec<Field>,
        is_kind: bool,
    },
    /// Anything else, in the table's notation.
    Named(String),
}

fn main() -> Outcome<()> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [kubernetes, api, apimachinery, apiextensions, data] = arguments.as_slice() else {
        return Err(
            "five directories are wanted: kubernetes, api, apimachinery, apiextensions-apiserver, data"
                .into(),
        );
    };
    let packages = packages(api, apimachinery, apiextensions)?;
    let openapi: Value =
        serde_json::from_slice(&fs::read(kubernetes.join("api/openapi-spec/swagger.json"))?)?;
    let mut declared = BTreeMap::new();
    for package in &packages {
        for file in &package.files {
            read_go(&fs::read_to_string(file)?, package, &packages, &mut declared)?;
        }
    }
    fs::write(data.join("types.txt"), types_table(&packages, &declared, &openapi)?)?;
    fs::write(data.join("resources.txt"), resources_table(&packages, &openapi)?)?;
    Ok(())
}

fn packages(api: &Path, apimachinery: &Path, apiextensions: &Path) -> Outcome<Vec<Package>> {
    let mut packages = vec![
        Package {
            name: "meta/v1".to_owned(),
            group: "meta.k8s.io".to_owned(),
            import: "k8s.io/apimachinery/pkg/apis/meta/v1".to_owned(),
            openapi: "io.k8s.apimachinery.pkg.apis.meta.v1".to_owned(),
            files: vec![apimachinery.join("pkg/apis/meta/v1/types.go")],
        },
        Package {
            name: "apiextensions/v1".to_owned(),
            group: "apiextensions.k8s.io".to_owned(),
            import: "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1".to_owned(),
            openapi: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1".to_owned(),
            files: ["types.go", "types_jsonschema.go"]
                .map(|name| apiextensions.join("pkg/apis/apiextensions/v1").join(name))
                .to_vec(),
        },
    ];
    let group_name = Regex::new(r#"(?m)GroupName\s*=\s*"([^"]*)""#)?;
    for group in API_GROUPS {
        let directory = api.join(group).join("v1");
        let register = fs::read_to_string(directory.join("register.go"))?;
        let name = group_name.captures(&register).ok_or("a register.go without GroupName")?;
        packages.push(Package {
            name: format!("{group}/v1"),
            group: name[1].to_owned(),
            import: format!("k8s.io/api/{group}/v1"),
            openapi: format!("io.k8s.api.{group}.v1"),
            files: vec![directory.join("types.go")],
        });
    }
    packages.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(packages)
}

/// Reads the type declarations of one Go file.
fn read_go(
    source: &str,
    package: &Package,
    packages: &[Package],
    declared: &mut BTreeMap<String, Declared>,
) -> Outcome<()> {
    let import = Regex::new(r#"^\t(?:(\w+) )?"([\w./-]+)"$"#)?;
    let declaration = Regex::new(r"^type (\w+) (=\s*)?(\S+)(?: \{)?\s*$")?;
    let field = Regex::new(r"^\t(?:(\w+)\s+)?(\S+)\s+`([^`]*)`")?;
    let mut imports = BTreeMap::new();
    let mut wrapped = false;
    let mut current: Option<(String, Vec<Field>, bool)> = None;
    for line in source.lines() {
        if let Some((name, fields, is_kind)) = &mut current {
            if line == "}" {
                let ty = Declared::Struct { fields: std::mem::take(fields), is_kind: *is_kind };
                declared.insert(std::mem::take(name), ty);
                current = None;
            } else if let Some(found) = field.captures(line).filter(|_| !line.trim_start().starts_with("//"))
            {
                if found[2].ends_with("TypeMeta") && found.get(1).is_none() {
                    *is_kind = true;
                } else if let Some(one) = read_field(&found[2], &found[3], package, packages, &imports)? {
                    fields.push(one);
                }
            }
        } else if let Some(found) = import.captures(line) {
            let path = &found[2];
            let alias =
                found.get(1).map_or_else(|| path.rsplit('/').next().unwrap_or(path), |name| name.as_str());
            imports.insert(alias.to_owned(), path.to_owned());
        } else if let Some(found) = declaration.captures(line) {
            let name = format!("{}.{}", package.name, &found[1]);
            if &found[3] == "struct{}" {
                declared.insert(name, Declared::Struct { fields: Vec::new(), is_kind: false });
            } else if &found[3] == "struct" {
                current = Some((name, Vec::new(), false));
            } else {
                let mark = if wrapped { '@' } else { '=' };
                let ty = go_type(&found[3], package, packages, &imports)?;
                declared.insert(name, Declared::Named(format!("{ty}{mark}v1.{}", &found[1])));
            }
            wrapped = false;
        } else if line.contains("+protobuf.nullable=true") {
            wrapped = true;
        }
    }
    Ok(())
}

fn read_field(
    go: &str,
    tags: &str,
    package: &Package,
    packages: &[Package],
    imports: &BTreeMap<String, String>,
) -> Outcome<Option<Field>> {
    let tag = |name: &str| {
        let start = tags.find(&format!("{name}:\""))? + name.len() + 2;
        tags[start..].split('"').next()
    };
    let Some(json) = tag("json") else { return Ok(None) };
    let mut parts = json.split(',');
    let name = parts.next().unwrap_or_default();
    if name == "-" {
        return Ok(None);
    }
    let options: Vec<&str> = parts.collect();
    let number = tag("protobuf").and_then(|text| text.split(',').nth(1)).map_or(Ok(0), str::parse)?;
    Ok(Some(Field {
        json: name.to_owned(),
        number,
        ty: go_type(go, package, packages, imports)?,
        omit_empty: options.contains(&"omitempty"),
        omit_zero: options.contains(&"omitzero"),
        strategy: tag("patchStrategy").unwrap_or_default().to_owned(),
        merge_key: tag("patchMergeKey").unwrap_or_default().to_owned(),
    }))
}

/// A Go type in the table's notation.
fn go_type(
    go: &str,
    package: &Package,
    packages: &[Package],
    imports: &BTreeMap<String, String>,
) -> Outcome<String> {
    let inner = |rest: &str| go_type(rest, package, packages, imports);
    if let Some(rest) = go.strip_prefix('*') {
        return Ok(format!("*{}", inner(rest)?));
    }
    if go == "[]byte" {
        return Ok("bytes".to_owned());
    }
    if go == "interface{}" {
        return Ok("json".to_owned());
    }
    if let Some(rest) = go.strip_prefix("[]") {
        return Ok(format!("[]{}", inner(rest)?));
    }
    if let Some(rest) = go.strip_prefix("map[") {
        let (_, value) = rest.split_once(']').ok_or("a map without a value")?;
        return Ok(format!("{{}}{}", inner(value)?));
    }
    if matches!(go, "string" | "bool" | "int32" | "int64" | "float64") {
        return Ok(go.to_owned());
    }
    let (path, name) = match go.split_once('.') {
        Some((alias, name)) => (imports.get(alias).map_or(alias, String::as_str), name),
        None => (package.import.as_str(), go),
    };
    let special = match (path.rsplit('/').next().unwrap_or(path), name) {
        ("resource", "Quantity") => "quantity",
        ("intstr", "IntOrString") => "intorstring",
        ("runtime", "RawExtension" | "Object") | ("v1", "FieldsV1") => "raw",
        ("v1", "Time") => "time",
        ("v1", "MicroTime") => "microtime",
        ("v1", "JSON") => "json",
        ("v1", "JSONSchemaPropsOrArray") => "schema-or-array",
        ("v1", "JSONSchemaPropsOrBool") => "schema-or-bool",
        ("v1", "JSONSchemaPropsOrStringArray") => "schema-or-strings",
        ("types", name) => return Ok(format!("string=types.{name}")),
        _ => {
            let package = packages.iter().find(|package| package.import == path);
            let package = package.ok_or_else(|| format!("{go}: no package {path}"))?;
            return Ok(format!("{}.{name}", package.name));
        }
    };
    Ok(special.to_owned())
}

/// Writes a type's name with named strings, lists and maps put in place.
fn resolve(ty: &str, declared: &BTreeMap<String, Declared>, used: &mut BTreeSet<String>) -> String {
    for mark in ["*", "[]", "{}"] {
        if let Some(rest) = ty.strip_prefix(mark) {
            return format!("{mark}{}", resolve(rest, declared, used));
        }
    }
    match declared.get(ty) {
        Some(Declared::Named(named)) => {
            let (inner, name) = named.split_at(named.rfind(['=', '@']).unwrap_or(named.len()));
            format!("{}{name}", resolve(inner, declared, used))
        }
        Some(Declared::Struct { .. }) => {
            used.insert(ty.to_owned());
            ty.to_owned()
        }
        None => ty.to_owned(),
    }
}

fn types_table(
    packages: &[Package],
    declared: &BTreeMap<String, Declared>,
    openapi: &Value,
) -> Outcome<String> {
    let mut wanted: Vec<String> = declared
        .iter()
        .filter(|(_, ty)| matches!(ty, Declared::Struct { is_kind: true, .. }))
        .map(|(name, _)| name.clone())
        .collect();
    wanted.push("meta/v1.ObjectMeta".to_owned());
    wanted.push("apiextensions/v1.JSONSchemaProps".to_owned());
    let mut written = BTreeMap::new();
    while let Some(name) = wanted.pop() {
        if written.contains_key(&name) {
            continue;
        }
        let Some(Declared::Struct { fields, is_kind }) = declared.get(&name) else { continue };
        let (package_name, short) = name.split_once('.').ok_or("a type without a package")?;
        let package =
            packages.iter().find(|package| package.name == package_name).ok_or("no such package")?;
        let definition = &openapi["definitions"][format!("{}.{short}", package.openapi)];
        let mut text = format!(
            "{name}{}{}\n",
            if *is_kind { " kind" } else { "" },
            if definition["x-kubernetes-map-type"] == "atomic" { " atomic" } else { "" }
        );
        let mut used = BTreeSet::new();
        for field in fields {
            let ty = resolve(&field.ty, declared, &mut used);
            text.push_str(&field_line(field, &ty, definition)?);
        }
        wanted.extend(used);
        written.insert(name, text);
    }
    Ok(written.into_values().collect::<Vec<_>>().join("\n"))
}

fn field_line(field: &Field, ty: &str, definition: &Value) -> Outcome<String> {
    let name = if field.json.is_empty() { "-" } else { &field.json };
    let mut line = format!(" {name} {} {ty}", field.number);
    let required =
        definition["required"].as_array().is_some_and(|names| names.iter().any(|name| name == &field.json));
    for (set, word) in [(field.omit_empty, " o"), (field.omit_zero, " z"), (required, " r")] {
        if set {
            line.push_str(word);
        }
    }
    if !field.strategy.is_empty() {
        write!(line, " strategy={}", field.strategy)?;
    }
    if !field.merge_key.is_empty() {
        write!(line, " key={}", field.merge_key)?;
    }
    let property = &definition["properties"][&field.json];
    let text = |name: &str| property[name].as_str();
    let list = match (text("x-kubernetes-list-type"), text("x-kubernetes-patch-strategy")) {
        (Some("map"), _) => property["x-kubernetes-list-map-keys"].as_array().map(|keys| {
            format!("map:{}", keys.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","))
        }),
        (Some("set"), _) => Some("set".to_owned()),
        (Some(_), _) => None,
        // Without a list type a real server takes the strategic merge's word for it.
        (None, Some("merge" | "merge,retainKeys")) if property["type"] == "array" => Some(
            text("x-kubernetes-patch-merge-key").map_or_else(|| "set".to_owned(), |key| format!("map:{key}")),
        ),
        (None, _) => None,
    };
    if let Some(list) = list {
        write!(line, " list={list}")?;
    }
    if text("x-kubernetes-map-type") == Some("atomic") {
        line.push_str(" atomic");
    }
    line.push('\n');
    Ok(line)
}

/// One line per resource and subresource: group, version, resource, `N` or `C` (namespaced, cluster), the
/// kind with its API version, and the HTTP methods on the collection and on one object.
fn resources_table(packages: &[Package], openapi: &Value) -> Outcome<String> {
    let path = Regex::new(
        r"^/apis?(?:/([a-z0-9.]+))?/v1(/namespaces/\{namespace\})?/([a-z]+)(/\{name\})?((?:/[a-z]+)?)$",
    )?;
    let mut lines: BTreeMap<(String, String), (char, String, [String; 2])> = BTreeMap::new();
    for (template, methods) in openapi["paths"].as_object().ok_or("no paths")? {
        let Some(found) = path.captures(template) else { continue };
        let group = found.get(1).map_or("", |name| name.as_str());
        if !packages.iter().any(|package| package.group == group) || &found[3] == "watch" {
            continue;
        }
        let resource = format!("{}{}", &found[3], &found[5]);
        for method in ["get", "put", "post", "patch", "delete"] {
            let operation = &methods[method];
            let kind = &operation["x-kubernetes-group-version-kind"];
            let Some(name) = kind["kind"].as_str() else { continue };
            let (kind_group, version) =
                (kind["group"].as_str().unwrap_or(""), kind["version"].as_str().unwrap_or(""));
            let api_version =
                if kind_group.is_empty() { version.to_owned() } else { format!("{kind_group}/{version}") };
            // A collection over all namespaces is no resource of its own.
            let scope = if found.get(2).is_some() { 'N' } else { 'C' };
            let entry = lines
                .entry((group.to_owned(), resource.clone()))
                .or_insert_with(|| (scope, format!("{api_version} {name}"), [String::new(), String::new()]));
            if scope == 'N' {
                entry.0 = 'N';
            }
            let methods = &mut entry.2[usize::from(found.get(4).is_some())];
            if !methods.split(',').any(|known| known == method) {
                methods.push_str(if methods.is_empty() { "" } else { "," });
                methods.push_str(method);
            }
        }
    }
    let mut text = String::new();
    for ((group, resource), (scope, kind, [collection, object])) in lines {
        let group = if group.is_empty() { "core" } else { &group };
        let shown = |methods: &str| if methods.is_empty() { "-".to_owned() } else { methods.to_owned() };
        writeln!(text, "{group} v1 {resource} {scope} {kind} {} {}", shown(&collection), shown(&object))?;
    }
    Ok(text)
}
