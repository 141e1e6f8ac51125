//! Claims, volumes and how many of them a host can attach.

use super::{Guest, Host, World, term};
use hostler_planner::model::*;
use std::collections::BTreeSet;

/// Namespace and name of a claim, and the volume it gets.
pub type Given = ((String, String), String);

impl World<'_> {
    pub fn storage(&self, guest: &Guest, host: &Host) -> Result<(), String> {
        let claims = |spec: &PodSpec| -> Vec<String> {
            spec.volumes
                .iter()
                .filter_map(|v| match &v.source {
                    VolumeSource::Claim(name) => Some(name.clone()),
                    _ => None,
                })
                .collect()
        };
        let find = |namespace: &str, name: &str| {
            self.cluster.claims.iter().find(|c| c.namespace == namespace && c.name == name)
        };
        // Driver and identity of what a claim attaches.
        let attaches = |namespace: &str, name: &str| -> Option<(String, String)> {
            let claim = find(namespace, name)?;
            match &claim.volume {
                Some(volume) => {
                    let volume = self.cluster.volumes.iter().find(|v| v.name == *volume)?;
                    Some((volume.driver.clone()?, volume.name.clone()))
                }
                None => {
                    let class = self
                        .cluster
                        .storage_classes
                        .iter()
                        .find(|c| Some(&c.name) == claim.class.as_ref())?;
                    Some((class.provisioner.clone(), format!("{namespace}/{name}")))
                }
            }
        };
        for name in claims(&guest.spec) {
            let claim = find(&guest.namespace, &name).ok_or("claim missing")?;
            match &claim.volume {
                Some(volume) => {
                    let volume =
                        self.cluster.volumes.iter().find(|v| v.name == *volume).ok_or("volume missing")?;
                    if volume.node_affinity.as_ref().is_some_and(|terms| !terms.iter().any(|t| term(t, host)))
                    {
                        return Err(format!("volume {} is elsewhere", volume.name));
                    }
                    let zone_keys = [keys::ZONE, keys::REGION];
                    let zoned = zone_keys
                        .iter()
                        .any(|k| host.labels.contains_key(*k) && volume.labels.contains_key(*k));
                    for key in zone_keys {
                        if let (true, Some(zones)) = (zoned, volume.labels.get(key))
                            && !host.labels.get(key).is_some_and(|zone| zones.split("__").any(|z| z == zone))
                        {
                            return Err(format!("volume {} is in another {key}", volume.name));
                        }
                    }
                }
                None => {
                    let class =
                        self.cluster.storage_classes.iter().find(|c| Some(&c.name) == claim.class.as_ref());
                    let class = class.ok_or("no class")?;
                    if !class.wait_for_first_consumer {
                        return Err("claim will not be bound".into());
                    }
                    // What is there already is found below.
                    if class.provisioner != "kubernetes.io/no-provisioner"
                        && !class.allowed_topologies.is_empty()
                        && !class.allowed_topologies.iter().any(|t| term(t, host))
                    {
                        return Err("not provisioned here".into());
                    }
                }
            }
            let used = |g: &Guest| g.namespace == guest.namespace && claims(&g.spec).contains(&name);
            if claim.single_pod && self.hosts.iter().flat_map(|h| &h.guests).any(used) {
                return Err(format!("claim {name} is in use"));
            }
        }
        self.found_volumes(guest, host)?;
        let mut attached: BTreeSet<(String, String)> = BTreeSet::new();
        for there in &host.guests {
            attached.extend(claims(&there.spec).iter().filter_map(|name| attaches(&there.namespace, name)));
        }
        let before = attached.clone();
        attached.extend(claims(&guest.spec).iter().filter_map(|name| attaches(&guest.namespace, name)));
        for (driver, limit) in &host.limits {
            let count = |set: &BTreeSet<(String, String)>| set.iter().filter(|(d, _)| d == driver).count();
            if count(&attached) > count(&before) && count(&attached) > usize::try_from(*limit).unwrap() {
                return Err(format!("more than {limit} volumes of {driver}"));
            }
        }
        Ok(())
    }

    /// Volumes that exist for claims that nobody provisions: the smallest that will do, for the smallest claim first.
    pub fn found_volumes(&self, guest: &Guest, host: &Host) -> Result<Vec<Given>, String> {
        let cluster = self.cluster;
        let by_hand = |claim: &&Claim| {
            let named = |class: &&StorageClass| Some(&class.name) == claim.class.as_ref();
            claim.volume.is_none()
                && cluster.storage_classes.iter().find(named).is_some_and(|class| {
                    class.wait_for_first_consumer && class.provisioner == "kubernetes.io/no-provisioner"
                })
        };
        let mut claims: Vec<&Claim> = Vec::new();
        for volume in &guest.spec.volumes {
            if let VolumeSource::Claim(name) = &volume.source {
                let own = |c: &&Claim| c.namespace == guest.namespace && c.name == *name;
                claims.extend(cluster.claims.iter().find(own).filter(by_hand));
            }
        }
        claims.sort_by_key(|claim| claim.request);
        let mut found: Vec<Given> = Vec::new();
        for claim in claims {
            let key = (claim.namespace.clone(), claim.name.clone());
            let mut volumes: Vec<&PersistentVolume> = cluster
                .volumes
                .iter()
                .filter(|v| v.node_affinity.as_ref().is_none_or(|terms| terms.iter().any(|t| term(t, host))))
                .filter(|v| match self.given.get(&key) {
                    Some((own, _)) => v.name == *own,
                    None => {
                        v.available
                            && v.class == claim.class
                            && v.capacity >= claim.request
                            && claim.modes.iter().all(|mode| v.modes.contains(mode))
                            && !self.given.values().any(|(taken, _)| *taken == v.name)
                            && !found.iter().any(|(_, taken)| *taken == v.name)
                    }
                })
                .collect();
            volumes.sort_by_key(|v| (v.capacity, &v.name));
            found.push((
                key,
                volumes.first().ok_or_else(|| format!("no volume for {}", claim.name))?.name.clone(),
            ));
        }
        Ok(found)
    }
}
