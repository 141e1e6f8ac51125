use base64::{Engine as _, engine::general_purpose::STANDARD};
use secrecy::{ExposeSecret, SecretString};
use std::net::SocketAddr;

/// A kubeconfig that leads to the server at this address. It holds the token: keep it from others.
pub fn kubeconfig(address: SocketAddr, ca_pem: &str, token: &SecretString) -> String {
    let authority = STANDARD.encode(ca_pem);
    let token = token.expose_secret();
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: hostler
  cluster:
    server: https://{address}
    certificate-authority-data: {authority}
users:
- name: hostler
  user:
    token: {token:?}
contexts:
- name: hostler
  context:
    cluster: hostler
    user: hostler
    namespace: default
current-context: hostler
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn it_is_yaml_with_everything_in_it() {
        let text = kubeconfig("[::1]:6443".parse().unwrap(), "PEM", &"secret".to_owned().into());
        let value: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(value["clusters"][0]["cluster"]["server"], "https://[::1]:6443");
        assert_eq!(value["clusters"][0]["cluster"]["certificate-authority-data"], STANDARD.encode("PEM"));
        assert_eq!(value["users"][0]["user"]["token"], "secret");
        assert_eq!(value["current-context"], value["contexts"][0]["name"]);
    }
}
