//! What a VPS's user data makes of it: read as cloud-init, kubeadm and a kubelet would.
//!
//! User data is a script (`#!…`) or a cloud-config (`#cloud-config`, of which `write_files`, `bootcmd` and `runcmd`
//! count); anything else is passed over, as cloud-init does. So is a start-up script. A machine becomes a node if a
//! command in it is `kubeadm join …` or starts `kubelet`. Then count, in commands, in files and in here-documents:
//!
//! | what | where |
//! |---|---|
//! | bootstrap token | `kubeadm join --token`; in a kubeadm `JoinConfiguration` `discovery.bootstrapToken.token` or `discovery.tlsBootstrapToken`; in a bootstrap kubeconfig `users[].user.token` |
//! | name of the node | `kubeadm join --node-name`, `--hostname-override`, `nodeRegistration.name`; else the hostname in lower case |
//! | labels | `--node-labels`, as a flag or in `nodeRegistration.kubeletExtraArgs` (as a list or a map) |
//! | taints | `--register-with-taints`, the same in `kubeletExtraArgs`, `nodeRegistration.taints`, `registerWithTaints` of a `KubeletConfiguration` |
//! | provider id | `--provider-id`, the same in `kubeletExtraArgs`, `providerID` of a `KubeletConfiguration` |
//!
//! `$(hostname)`, `$(hostname -s)`, `${HOSTNAME}` and `$HOSTNAME` stand for the hostname. A kubelet does not start with a
//! label or a taint that is none, or with a label of Kubernetes' own that it must not give itself.

use crate::hollow::NodeTaint;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use std::collections::BTreeMap;

/// What of Kubernetes' own labels a kubelet may give itself, beside those below the two prefixes.
const OWN_LABELS: [&str; 12] = [
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "node.kubernetes.io/windows-build",
];
const OWN_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// What a machine needs to know to become a node.
#[derive(Default, PartialEq, Eq)]
pub(super) struct Bootstrap {
    /// `id.secret`.
    pub(super) token: Option<String>,
    pub(super) node_name: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) taints: Vec<NodeTaint>,
    pub(super) provider_id: Option<String>,
    /// The kubelet does not start.
    pub(super) is_broken: bool,
}

/// What cloud-init runs and writes.
#[derive(Default)]
struct Material {
    commands: String,
    files: Vec<String>,
}

impl Bootstrap {
    /// From user data and start-up scripts, for a machine with this hostname.
    pub(super) fn of(sources: &[&[u8]], hostname: &str) -> Self {
        let mut material = Material::default();
        for source in sources {
            if let Ok(text) = std::str::from_utf8(source) {
                material.add(&with_hostname(text, hostname));
            }
        }
        material.bootstrap()
    }

    fn add_labels(&mut self, text: &str) {
        for part in text.split(',').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some((key, value)) if is_allowed_label(key) && is_value(value) => {
                    self.labels.insert(key.to_owned(), value.to_owned());
                }
                _ => self.is_broken = true,
            }
        }
    }

    /// Taints as a flag has them: `key=value:effect` or `key:effect`, with commas between them.
    fn add_taints(&mut self, text: &str) {
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let Some((name, effect)) = part.rsplit_once(':') else {
                self.is_broken = true;
                continue;
            };
            let (key, value) = name.split_once('=').unwrap_or((name, ""));
            self.add_taint(key, value, effect);
        }
    }

    fn add_taint(&mut self, key: &str, value: &str, effect: &str) {
        if !is_key(key)
            || !is_value(value)
            || !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect)
        {
            self.is_broken = true;
            return;
        }
        let same = |known: &NodeTaint| known.key == key && known.effect == effect;
        if !self.taints.iter().any(same) {
            let (key, value, effect) = (key.to_owned(), value.to_owned(), effect.to_owned());
            self.taints.push(NodeTaint { key, value, effect });
        }
    }

    fn add_taint_objects(&mut self, taints: &Value) {
        for taint in taints.as_array().into_iter().flatten() {
            // A value such as `true` without quotes is none for kubeadm.
            self.is_broken |= !taint["value"].is_null() && !taint["value"].is_string();
            let field = |name: &str| taint[name].as_str().unwrap_or_default();
            self.add_taint(field("key"), field("value"), field("effect"));
        }
    }

    fn read(&mut self, document: &Value) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        match document["kind"].as_str() {
            Some("JoinConfiguration") => {
                let discovery = &document["discovery"];
                let token = text(&discovery["bootstrapToken"]["token"])
                    .or_else(|| text(&discovery["tlsBootstrapToken"]));
                self.token = self.token.take().or(token);
                let node = &document["nodeRegistration"];
                self.node_name = self.node_name.take().or_else(|| text(&node["name"]));
                self.add_taint_objects(&node["taints"]);
                for (name, value) in arguments(&node["kubeletExtraArgs"]) {
                    let Some(value) = value.as_str() else {
                        self.is_broken = true;
                        continue;
                    };
                    match name {
                        "node-labels" => self.add_labels(value),
                        "register-with-taints" => self.add_taints(value),
                        "provider-id" => self.provider_id = Some(value.to_owned()),
                        "hostname-override" => self.node_name = Some(value.to_owned()),
                        _ => {}
                    }
                }
            }
            Some("KubeletConfiguration") => {
                self.provider_id = self.provider_id.take().or_else(|| text(&document["providerID"]));
                self.add_taint_objects(&document["registerWithTaints"]);
            }
            Some("Config") => {
                let mut users = document["users"].as_array().into_iter().flatten();
                let token = users.find_map(|user| text(&user["user"]["token"]));
                self.token = self.token.take().or(token);
            }
            _ => {}
        }
    }
}

impl Material {
    fn add(&mut self, text: &str) {
        if text.starts_with("#!") {
            self.add_script(text);
        } else if text.starts_with("#cloud-config")
            && let Some(config) = documents(text).first()
        {
            self.add_config(config);
        }
    }

    fn add_config(&mut self, config: &Value) {
        for list in ["bootcmd", "runcmd"] {
            for command in config[list].as_array().into_iter().flatten() {
                let words = command.as_array().into_iter().flatten().filter_map(Value::as_str);
                let line =
                    command.as_str().map_or_else(|| words.collect::<Vec<_>>().join(" "), str::to_owned);
                self.add_script(&line);
            }
        }
        for file in config["write_files"].as_array().into_iter().flatten() {
            let content = file["content"].as_str().unwrap_or_default();
            let content = match file["encoding"].as_str() {
                None | Some("text/plain") => Some(content.to_owned()),
                Some("b64" | "base64") => {
                    STANDARD.decode(content.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok())
                }
                Some(_) => None,
            };
            let path = file["path"].as_str().unwrap_or_default();
            let runs = !path.is_empty() && self.commands.contains(path);
            match content {
                Some(content) if runs && content.starts_with("#!") => self.add_script(&content),
                Some(content) => self.files.push(content),
                None => {}
            }
        }
    }

    /// Commands without comments; what stands in here-documents are files.
    fn add_script(&mut self, text: &str) {
        let text = text.replace("\\\n", " ");
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line.trim_start().starts_with('#') {
                continue;
            }
            self.commands.push_str(line);
            self.commands.push('\n');
            if let Some(end) = here_document(line) {
                let inside: Vec<&str> = lines.by_ref().take_while(|line| line.trim() != end).collect();
                self.files.push(inside.join("\n"));
            }
        }
    }

    fn bootstrap(&self) -> Bootstrap {
        let mut bootstrap = Bootstrap::default();
        let join = self.commands.find("kubeadm join").and_then(|at| self.commands.get(at..));
        let starts_kubelet = self
            .commands
            .split_whitespace()
            .any(|word| word == "kubelet" || word == "kubelet.service" || word.ends_with("/bin/kubelet"));
        if join.is_none() && !starts_kubelet {
            return bootstrap;
        }
        let join = join.unwrap_or_default();
        bootstrap.token = flag(join, "--token").next();
        bootstrap.node_name = flag(join, "--node-name").next();
        for text in self.files.iter().chain([&self.commands]) {
            flag(text, "--node-labels").for_each(|labels| bootstrap.add_labels(&labels));
            flag(text, "--register-with-taints").for_each(|taints| bootstrap.add_taints(&taints));
            bootstrap.provider_id = bootstrap.provider_id.or_else(|| flag(text, "--provider-id").next());
            bootstrap.node_name = bootstrap.node_name.or_else(|| flag(text, "--hostname-override").next());
        }
        for file in &self.files {
            for document in documents(file) {
                bootstrap.read(&document);
            }
        }
        bootstrap.token = bootstrap.token.filter(|token| is_token(token));
        bootstrap
    }
}

fn with_hostname(text: &str, hostname: &str) -> String {
    ["$(hostname -s)", "$(hostname)", "${HOSTNAME}", "$HOSTNAME"]
        .iter()
        .fold(text.to_owned(), |text, word| text.replace(word, hostname))
}

/// The word that ends a here-document which this line begins.
fn here_document(line: &str) -> Option<&str> {
    let (_, after) = line.split_once("<<")?;
    let after = after.trim_start_matches('-').trim_start();
    let word = after.split(|c: char| c.is_whitespace() || c == ';' || c == '|').next()?;
    let word = word.trim_matches(|c| c == '\'' || c == '"');
    Some(word).filter(|word| !word.is_empty() && !word.starts_with('<'))
}

/// The values of a flag, `--name=value` or `--name value`, wherever it stands.
fn flag<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = String> {
    text.match_indices(name).filter_map(move |(at, _)| {
        let rest = text.get(at + name.len()..)?;
        let value = rest.strip_prefix('=').or_else(|| rest.strip_prefix([' ', '\t']).map(str::trim_start))?;
        let quote = value.chars().next().filter(|first| ['"', '\''].contains(first));
        let value = match quote {
            Some(quote) => value.get(1..)?.split(quote).next()?,
            None => value.split(|c: char| c.is_whitespace() || "\"';|&".contains(c)).next()?,
        };
        Some(value.trim_end_matches('\\').to_owned())
    })
}

/// What is in a text in YAML; nothing if it is none.
fn documents(text: &str) -> Vec<Value> {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_multiple_with_options(text, options).unwrap_or_default()
}

/// The kubelet's arguments: a map in older versions of kubeadm's configuration, a list of pairs in newer ones.
fn arguments(value: &Value) -> Vec<(&str, &Value)> {
    match value {
        Value::Object(map) => map.iter().map(|(name, value)| (name.as_str(), value)).collect(),
        Value::Array(list) => {
            list.iter().filter_map(|pair| Some((pair["name"].as_str()?, &pair["value"]))).collect()
        }
        _ => Vec::new(),
    }
}

fn is_token(text: &str) -> bool {
    let plain = |part: &str, length: usize| {
        part.len() == length && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    text.split_once('.').is_some_and(|(id, secret)| plain(id, 6) && plain(secret, 16))
}

fn is_name(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && edge(text.chars().next())
        && edge(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

fn is_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

fn is_key(text: &str) -> bool {
    match text.split_once('/') {
        None => is_name(text),
        Some((prefix, name)) => {
            let label = |part: &str| {
                !part.is_empty()
                    && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            };
            prefix.len() <= 253 && prefix.split('.').all(label) && is_name(name)
        }
    }
}

/// Whether a kubelet may give itself a label with this key.
fn is_allowed_label(key: &str) -> bool {
    let prefix = key.split_once('/').map(|(prefix, _)| prefix).unwrap_or_default();
    let is_below = |parent: &str| prefix == parent || prefix.ends_with(&format!(".{parent}"));
    let is_kubernetes = is_below("kubernetes.io") || is_below("k8s.io");
    let may = OWN_LABELS.contains(&key) || OWN_PREFIXES.iter().any(|parent| is_below(parent));
    is_key(key) && (!is_kubernetes || may)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "abcdef.0123456789abcdef";

    fn read(text: &str) -> Bootstrap {
        Bootstrap::of(&[text.as_bytes()], "node-1")
    }

    /// Everything but the token, in one line.
    fn told(bootstrap: &Bootstrap) -> String {
        let labels: Vec<String> =
            bootstrap.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let taints: Vec<String> = bootstrap
            .taints
            .iter()
            .map(|taint| format!("{}={}:{}", taint.key, taint.value, taint.effect))
            .collect();
        format!(
            "{} {} {} {}",
            bootstrap.node_name.as_deref().unwrap_or("-"),
            labels.join(","),
            taints.join(","),
            bootstrap.provider_id.as_deref().unwrap_or("-")
        )
    }

    #[test]
    fn a_script_joins_with_flags() {
        let script = format!(
            "#!/bin/bash\nset -e\n# kubeadm join --token zzzzzz.0123456789abcdef\n\
             echo 'KUBELET_EXTRA_ARGS=\"--node-labels=a=b,example.com/c=d --register-with-taints=x=y:NoSchedule,z:NoExecute \
             --provider-id=vpsie://7\"' > /etc/default/kubelet\n\
             kubeadm join 10.0.0.1:6443 --token {TOKEN} \\\n  --discovery-token-ca-cert-hash sha256:00 --node-name \"$(hostname)\"\n"
        );
        let bootstrap = read(&script);
        assert_eq!(bootstrap.token.as_deref(), Some(TOKEN));
        assert_eq!(told(&bootstrap), "node-1 a=b,example.com/c=d x=y:NoSchedule,z=:NoExecute vpsie://7");
        assert!(!bootstrap.is_broken);
    }

    #[test]
    fn a_cloud_config_joins_with_a_configuration() {
        let lists = "kubeletExtraArgs:\n        - name: node-labels\n          value: a=b\n        \
                     - name: provider-id\n          value: vpsie://7";
        let maps = "kubeletExtraArgs:\n          node-labels: a=b\n          provider-id: vpsie://7";
        for arguments in [lists, maps] {
            let config = format!(
                "#cloud-config
write_files:
- path: /etc/kubernetes/join.yaml
  content: |
    apiVersion: kubeadm.k8s.io/v1beta4
    kind: JoinConfiguration
    discovery:
      bootstrapToken:
        token: {TOKEN}
        apiServerEndpoint: 10.0.0.1:6443
    nodeRegistration:
      name: other
      taints:
      - key: x
        value: y
        effect: NoSchedule
      {arguments}
runcmd:
- [kubeadm, join, --config, /etc/kubernetes/join.yaml]
"
            );
            let bootstrap = read(&config);
            assert_eq!(bootstrap.token.as_deref(), Some(TOKEN), "{config}");
            assert_eq!(told(&bootstrap), "other a=b x=y:NoSchedule vpsie://7");
        }
    }

    #[test]
    fn a_kubelet_starts_with_a_kubeconfig() {
        let config = format!(
            "#cloud-config
write_files:
- path: /etc/kubernetes/bootstrap-kubelet.conf
  encoding: b64
  content: {}
- path: /var/lib/kubelet/config.yaml
  content: |
    kind: KubeletConfiguration
    providerID: vpsie://7
    registerWithTaints:
    - key: x
      effect: NoSchedule
runcmd:
- systemctl enable --now kubelet
",
            STANDARD.encode(format!("kind: Config\nusers:\n- name: u\n  user:\n    token: {TOKEN}\n"))
        );
        let bootstrap = read(&config);
        assert_eq!(bootstrap.token.as_deref(), Some(TOKEN));
        assert_eq!(told(&bootstrap), "-  x=:NoSchedule vpsie://7");
    }

    #[test]
    fn a_written_script_counts_if_it_is_run_and_a_here_document_is_a_file() {
        let script = format!(
            "#!/bin/sh\n    cat > /etc/join.yaml <<'EOF'\n    kind: JoinConfiguration\n    discovery:\n      \
             tlsBootstrapToken: {TOKEN}\n    EOF\n    kubeadm join --config /etc/join.yaml\n"
        );
        let config = |run: &str| {
            format!(
                "#cloud-config\nwrite_files:\n- path: /opt/join.sh\n  content: |\n    {script}runcmd:\n- {run}\n"
            )
        };
        assert_eq!(read(&config("/opt/join.sh")).token.as_deref(), Some(TOKEN), "{}", config("/opt/join.sh"));
        assert_eq!(read(&config("/opt/other.sh")).token, None);
    }

    #[test]
    fn what_nobody_runs_or_has_filled_in_gives_no_token() {
        for text in [
            String::new(),
            format!("token: {TOKEN}"),
            format!("kubeadm join --token {TOKEN}"),
            format!("#!/bin/sh\n# kubeadm join --token {TOKEN}\n"),
            format!("#!/bin/sh\necho --token {TOKEN}\n"),
            "#!/bin/sh\nkubeadm join --token <<BOOTSTRAP_TOKEN>>\n".to_owned(),
            "#!/bin/sh\nkubeadm join --token {{ token }}\n".to_owned(),
            format!("#!/bin/sh\nkubeadm join --token-file {TOKEN}\n"),
            format!("#!/bin/sh\nkubeadm join --token X{TOKEN}\n"),
            format!("#cloud-config\nruncmd: [\nkubeadm join --token {TOKEN}"),
        ] {
            assert_eq!(read(&text).token, None, "{text}");
        }
    }

    #[test]
    fn a_kubelet_does_not_start_with_what_is_no_label_or_taint() {
        for (flags, expected) in [
            ("--node-labels=a=b", false),
            ("--node-labels=node.kubernetes.io/instance-type=x,topology.kubernetes.io/zone=y", false),
            ("--node-labels=node.kubernetes.io/pool=x", false),
            ("--node-labels=autoscaler.vpsie.com/nodegroup=g", false),
            ("--node-labels=node-role.kubernetes.io/worker=", true),
            ("--node-labels=kubernetes.io/x=y", true),
            ("--node-labels=a", true),
            ("--node-labels={{labels}}", true),
            ("--node-labels=a=b c", false),
            ("--register-with-taints=a=b:NoSchedule", false),
            ("--register-with-taints=a=b", true),
            ("--register-with-taints=a=b:Sometimes", true),
        ] {
            let script = format!("#!/bin/sh\nkubelet {flags}\n");
            assert_eq!(read(&script).is_broken, expected, "{flags}");
        }
        let taints = "taints: [{key: a, value: true, effect: NoSchedule}]";
        for (node, expected) in [
            (taints, true),
            (&taints.replace("true", "'true'"), false),
            ("kubeletExtraArgs: [{name: v, value: 4}]", true),
            ("kubeletExtraArgs: {v: '4'}", false),
        ] {
            let document = format!("kind: JoinConfiguration\nnodeRegistration: {{{node}}}");
            let script = format!("#!/bin/sh\ncat > x <<E\n{document}\nE\nkubeadm join --config x\n");
            assert_eq!(read(&script).is_broken, expected, "{node}");
        }
    }
}
