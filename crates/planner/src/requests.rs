//! What a pod asks of its node.

use crate::model::{Container, PodSpec, Resources};

fn add(sum: &mut Resources, other: &Resources) {
    sum.cpu += other.cpu;
    sum.memory += other.memory;
    sum.ephemeral_storage += other.ephemeral_storage;
    for (name, amount) in &other.extended {
        *sum.extended.entry(name.clone()).or_default() += amount;
    }
}

pub(crate) fn raise(most: &mut Resources, other: &Resources) {
    most.cpu = most.cpu.max(other.cpu);
    most.memory = most.memory.max(other.memory);
    most.ephemeral_storage = most.ephemeral_storage.max(other.ephemeral_storage);
    for (name, amount) in &other.extended {
        let entry = most.extended.entry(name.clone()).or_default();
        *entry = (*entry).max(*amount);
    }
}

/// The scheduler's sum: containers and sidecars run together, an init container runs beside the sidecars that started
/// before it, and the larger of the two counts. The runtime's overhead comes on top.
pub fn effective(spec: &PodSpec) -> Resources {
    let mut running = Resources::default();
    for container in &spec.containers {
        add(&mut running, &container.requests);
    }
    let mut sidecars = Resources::default();
    let mut starting = Resources::default();
    for Container { requests, sidecar, .. } in &spec.init_containers {
        if *sidecar {
            add(&mut running, requests);
            add(&mut sidecars, requests);
            raise(&mut starting, &sidecars);
        } else {
            let mut beside = sidecars.clone();
            add(&mut beside, requests);
            raise(&mut starting, &beside);
        }
    }
    raise(&mut running, &starting);
    if let Some(whole) = &spec.pod_requests {
        if whole.cpu > 0 {
            running.cpu = whole.cpu;
        }
        if whole.memory > 0 {
            running.memory = whole.memory;
        }
        for (name, amount) in whole.extended.iter().filter(|(name, _)| name.starts_with("hugepages-")) {
            running.extended.insert(name.clone(), *amount);
        }
    }
    add(&mut running, &spec.overhead);
    running.pods = 1;
    running
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(cpu: i64, sidecar: bool) -> Container {
        Container { requests: Resources::new(cpu, 0), sidecar, ..Container::default() }
    }

    #[test]
    fn init_containers_count_by_the_largest_and_sidecars_always() {
        type Row<'t> = (&'t str, &'t [i64], &'t [(i64, bool)], i64, i64);
        let table: [Row<'_>; 6] = [
            ("containers add up", &[100, 200], &[], 0, 300),
            ("a larger init container wins", &[100], &[(500, false), (300, false)], 0, 500),
            ("a smaller one is free", &[400], &[(300, false)], 0, 400),
            ("a sidecar runs with the containers", &[100], &[(50, true)], 0, 150),
            (
                "an init container runs beside earlier sidecars only",
                &[100],
                &[(50, true), (300, false), (70, true)],
                0,
                350,
            ),
            ("overhead comes on top", &[100], &[(500, false)], 25, 525),
        ];
        for (what, containers, inits, overhead, expected) in table {
            let spec = PodSpec {
                containers: containers.iter().map(|cpu| container(*cpu, false)).collect(),
                init_containers: inits.iter().map(|(cpu, sidecar)| container(*cpu, *sidecar)).collect(),
                overhead: Resources::new(overhead, 0),
                ..PodSpec::default()
            };
            assert_eq!(effective(&spec).cpu, expected, "{what}");
        }
    }

    #[test]
    fn requests_of_the_whole_pod_replace_the_sum() {
        let spec = PodSpec {
            containers: vec![container(100, false)],
            pod_requests: Some(Resources::new(1000, 0)),
            ..PodSpec::default()
        };
        assert_eq!(effective(&spec).cpu, 1000);
    }
}
