//! Cluster API's managers with their webhooks, without cert-manager: a certificate of the control plane's own
//! authority, and URLs on loopback in place of Services.

use crate::{
    authority::write_private,
    catalogue::{Binary, CLUSTER_API_CORE, KUBEADM_BOOTSTRAP, KUBEADM_CONTROL_PLANE},
    manifests,
    plane::{ControlPlane, unchecked, wait_until},
    ports::free_port,
    process::{Process, Program},
};
use anyhow::Context;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, api::PostParams};
use serde_json::{Value, json};
use std::{fs, path::PathBuf};

/// One of the managers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    Core,
    KubeadmBootstrap,
    KubeadmControlPlane,
}

impl Manager {
    pub fn binary(self) -> &'static Binary {
        match self {
            Self::Core => &CLUSTER_API_CORE,
            Self::KubeadmBootstrap => &KUBEADM_BOOTSTRAP,
            Self::KubeadmControlPlane => &KUBEADM_CONTROL_PLANE,
        }
    }

    /// The name that clusterctl knows it by, and where its manifests are among the assets.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Core => ("cluster-api", "core"),
            Self::KubeadmBootstrap => ("bootstrap-kubeadm", "bootstrap"),
            Self::KubeadmControlPlane => ("control-plane-kubeadm", "control-plane"),
        }
    }

    fn namespace(self) -> &'static str {
        match self {
            Self::Core => "capi-system",
            Self::KubeadmBootstrap => "capi-kubeadm-bootstrap-system",
            Self::KubeadmControlPlane => "capi-kubeadm-control-plane-system",
        }
    }
}

/// Installs a manager's definitions and webhooks, starts it and waits until it is ready.
pub async fn start(plane: &mut ControlPlane, manager: Manager) -> anyhow::Result<Process> {
    let client = plane.client().await?;
    let (provider, assets) = manager.names();
    let assets: PathBuf = plane.store().assets(manager.binary().group).join(assets);
    let (port, diagnostics, health) = (free_port()?, free_port()?, free_port()?);
    let webhooks = Webhooks { port, authority: plane.authority().pem().to_owned(), provider };
    let mut definitions = manifests::read(&assets.join("crds"))?;
    for definition in &mut definitions {
        webhooks.convert(definition);
    }
    manifests::define(&client, &definitions).await?;
    let mut configurations = manifests::read(&assets.join("webhooks"))?;
    configurations.retain(|object| object["apiVersion"] == "admissionregistration.k8s.io/v1");
    for configuration in &mut configurations {
        webhooks.redirect(configuration);
    }
    manifests::apply(&client, &configurations).await?;
    make_namespace(&client, manager.namespace()).await?;

    let identity = plane.authority().server(provider)?;
    let certificates = plane.directory().join(provider);
    fs::create_dir_all(&certificates)
        .with_context(|| format!("{} cannot be made", certificates.display()))?;
    write_private(&certificates.join("tls.crt"), &identity.certificate)?;
    write_private(&certificates.join("tls.key"), &identity.key)?;
    let mut process = Program::new(manager.binary().name, plane.store().path(manager.binary()))
        .flag("kubeconfig", plane.admin_kubeconfig())
        .flag("webhook-port", port.to_string())
        .flag("webhook-cert-dir", &certificates)
        .flag("diagnostics-address", format!("127.0.0.1:{diagnostics}"))
        .arg("--insecure-diagnostics")
        .flag("health-addr", format!("127.0.0.1:{health}"))
        .flag("feature-gates", "ClusterTopology=true")
        .env("POD_NAMESPACE", manager.namespace())
        .start(plane.supervisor(), plane.directory())?;
    let ready = unchecked(&format!("http://127.0.0.1:{health}"))?;
    let what = format!("{provider} is ready");
    wait_until(&what, || process.check(), &ready, "/readyz").await?;
    Ok(process)
}

async fn make_namespace(client: &Client, name: &str) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    match namespaces.create(&PostParams::default(), &namespace).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        other => other.map(drop).with_context(|| format!("the namespace {name} cannot be made")),
    }
}

struct Webhooks {
    port: u16,
    authority: String,
    provider: &'static str,
}

impl Webhooks {
    fn client_config(&self, path: &str) -> Value {
        json!({
            "url": format!("https://127.0.0.1:{}{path}", self.port),
            "caBundle": STANDARD.encode(&self.authority),
        })
    }

    /// Lets a definition's versions be converted by the manager.
    fn convert(&self, definition: &mut Value) {
        definition["metadata"]["labels"]["cluster.x-k8s.io/provider"] = json!(self.provider);
        if definition["spec"]["versions"].as_array().is_some_and(|versions| versions.len() > 1) {
            definition["spec"]["conversion"] = json!({
                "strategy": "Webhook",
                "webhook": {"conversionReviewVersions": ["v1", "v1beta1"], "clientConfig": self.client_config("/convert")},
            });
        }
    }

    /// Points a configuration's webhooks to the manager, under a name of its own: those of all managers are alike.
    fn redirect(&self, configuration: &mut Value) {
        let name = configuration["metadata"]["name"].as_str().unwrap_or_default();
        configuration["metadata"]["name"] = json!(format!("{}-{name}", self.provider));
        for webhook in configuration["webhooks"].as_array_mut().into_iter().flatten() {
            let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap_or_default().to_owned();
            webhook["clientConfig"] = self.client_config(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_are_led_to_loopback() {
        let webhooks = Webhooks { port: 9443, authority: "pem".to_owned(), provider: "cluster-api" };
        let mut configuration = json!({
            "metadata": {"name": "validating"},
            "webhooks": [{"name": "a", "clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/validate"}}}],
        });
        webhooks.redirect(&mut configuration);
        assert_eq!(configuration["metadata"]["name"], "cluster-api-validating");
        assert_eq!(
            configuration["webhooks"][0]["clientConfig"],
            json!({"url": "https://127.0.0.1:9443/validate", "caBundle": STANDARD.encode("pem")})
        );
    }

    #[test]
    fn only_definitions_with_several_versions_are_converted() {
        let webhooks = Webhooks { port: 9443, authority: "pem".to_owned(), provider: "cluster-api" };
        let mut one = json!({"metadata": {"name": "a"}, "spec": {"versions": [{"name": "v1"}]}});
        webhooks.convert(&mut one);
        assert_eq!(one["spec"]["conversion"], Value::Null);
        let mut two =
            json!({"metadata": {"name": "a"}, "spec": {"versions": [{"name": "v1"}, {"name": "v2"}]}});
        webhooks.convert(&mut two);
        let client = &two["spec"]["conversion"]["webhook"]["clientConfig"];
        assert_eq!(client["url"], "https://127.0.0.1:9443/convert");
    }
}
